//! A model: its inputs, its presets, and the function behind it.

use serde_json::{Map, Value};

use crate::answer::{Answer, Confidence, Figure, InputValue, Origin, SCHEMA, Sure, Verdict};
use crate::calibration::Calibration;
use crate::error::Error;
use crate::links;
use crate::param::Param;
use crate::plot::Plot;

/// Values by name.
pub(crate) type Values = Map<String, Value>;

/// What draws how an answer changes over an input.
pub(crate) type Sweep = fn(&Values) -> Result<Plot, Error>;

/// A question that can be answered before anything runs.
#[derive(Debug)]
pub struct Model {
    /// Its name, which is the subcommand's.
    pub name: &'static str,
    /// What it answers.
    pub question: &'static str,
    /// Its inputs.
    pub params: &'static [Param],
    /// Sets of inputs with a name.
    pub presets: &'static [Preset],
    /// How it is computed.
    pub(crate) formula: &'static [&'static str],
    /// What kind of statement it makes, and what that rests on.
    pub(crate) sure: (Sure, &'static str),
    /// What it leaves out.
    pub(crate) limits: &'static [&'static str],
    pub(crate) defaults: fn() -> Values,
    pub(crate) run: fn(&Values) -> Result<Outcome, Error>,
    pub(crate) plot: Option<Sweep>,
}

/// Inputs with a name.
#[derive(Debug)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// What they are of.
    pub meaning: &'static str,
    /// The inputs, as JSON.
    pub(crate) values: &'static str,
}

/// What the function behind a model gives.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) results: Vec<Figure>,
    pub(crate) bound: String,
    pub(crate) verdict: Option<Verdict>,
}

impl Outcome {
    pub(crate) fn new(bound: impl Into<String>, results: Vec<Figure>) -> Outcome {
        Outcome { results, bound: bound.into(), verdict: None }
    }
}

/// With what a model is asked. What is given goes before what was measured, that before a preset, that before defaults.
#[derive(Clone, Debug, Default)]
pub struct Settings<'a> {
    /// A preset of the model.
    pub preset: Option<String>,
    /// Constants that were measured.
    pub calibration: Option<&'a Calibration>,
    /// Inputs, by name.
    pub given: Map<String, Value>,
}

impl Model {
    /// Answers.
    pub fn answer(&self, settings: &Settings<'_>) -> Result<Answer, Error> {
        let (values, origins) = self.values(settings)?;
        let outcome = (self.run)(&values)?;
        let inputs = self.params.iter().zip(&origins).map(|(param, from)| InputValue {
            name: param.name,
            value: values[param.name].clone(),
            unit: param.unit,
            from: from.clone(),
            meaning: param.meaning,
        });
        Ok(Answer {
            schema: SCHEMA,
            warpbell: env!("CARGO_PKG_VERSION"),
            model: self.name,
            question: self.question,
            inputs: inputs.collect(),
            formula: self.formula,
            results: outcome.results,
            bound: outcome.bound,
            verdict: outcome.verdict,
            confidence: self.confidence(&origins, settings.calibration),
            limits: self.limits.to_vec(),
        })
    }

    /// The value of an input that is not given.
    pub fn default_of(&self, param: &Param) -> Value {
        (self.defaults)().remove(param.name).unwrap_or_default()
    }

    /// Whether [`Model::plot`] has something to draw.
    pub fn has_plot(&self) -> bool {
        self.plot.is_some()
    }

    /// How the answer changes over the input that matters most; nothing where no sweep makes sense.
    pub fn plot(&self, settings: &Settings<'_>) -> Result<Option<Plot>, Error> {
        let (values, _) = self.values(settings)?;
        self.plot.map(|plot| plot(&values)).transpose()
    }

    fn confidence(&self, origins: &[Origin], calibration: Option<&Calibration>) -> Confidence {
        let (level, source) = self.sure;
        let constants = |measured: bool| {
            let all = self.params.iter().zip(origins).filter(|(param, _)| param.measurable);
            let wanted = all.filter(move |(_, from)| (**from == Origin::Calibration) == measured);
            wanted.map(|(param, _)| param.name).collect::<Vec<_>>()
        };
        let (measured, not_measured) = (constants(true), constants(false));
        let used = calibration.filter(|_| !measured.is_empty());
        let measured_on = used.map(Calibration::source);
        Confidence { level, source, measured, not_measured, measured_on }
    }

    /// All inputs, checked, and where each comes from.
    pub(crate) fn values(&self, settings: &Settings<'_>) -> Result<(Values, Vec<Origin>), Error> {
        let mut values = (self.defaults)();
        let mut origins = vec![Origin::Default; self.params.len()];
        let mut set = |name: &str, value: &Value, from: &Origin| {
            let index = self.index(name)?;
            self.params[index].check(value)?;
            values.insert(name.to_owned(), value.clone());
            origins[index] = from.clone();
            Ok(())
        };
        if let Some(name) = &settings.preset {
            let preset = self.preset(name)?;
            let named: Values = serde_json::from_str(preset.values)
                .map_err(|error| Error::Data { file: preset.name, reason: error.to_string() })?;
            for (name, value) in &named {
                set(name, value, &Origin::Preset(preset.name))?;
            }
        }
        for (name, value) in settings.calibration.iter().flat_map(|calibration| calibration.of(self.name)) {
            set(name, value, &Origin::Calibration)?;
        }
        for (name, value) in &settings.given {
            set(name, value, &Origin::Given)?;
        }
        if let Ok(index) = self.index(links::CUSTOM) {
            links::refuse_unused(&values, &origins[index])?;
        }
        Ok((values, origins))
    }

    fn index(&self, name: &str) -> Result<usize, Error> {
        let known = || self.params.iter().map(|param| param.name).collect::<Vec<_>>().join(", ");
        let found = self.params.iter().position(|param| param.name == name);
        found.ok_or_else(|| Error::Input { model: self.name, name: name.to_owned(), known: known() })
    }

    fn preset(&self, name: &str) -> Result<&Preset, Error> {
        let names = || self.presets.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
        let known = || match self.presets {
            [] => "it has none".to_owned(),
            _ => format!("it has {}", names()),
        };
        let found = self.presets.iter().find(|preset| preset.name == name);
        found.ok_or_else(|| Error::Preset { model: self.name, name: name.to_owned(), known: known() })
    }
}

/// The defaults of a model's inputs, by name.
pub(crate) fn defaults<T: Default + serde::Serialize>() -> Values {
    match serde_json::to_value(T::default()) {
        Ok(Value::Object(map)) => map,
        // A struct of numbers and words serializes to an object.
        _ => Values::new(),
    }
}

/// The model that a module's `Input`, `PARAMS`, `answer` and constants make.
macro_rules! model {
    ($name:literal, $question:literal, presets: $presets:expr, plot: $plot:expr) => {
        /// The model.
        pub const MODEL: $crate::model::Model = $crate::model::Model {
            name: $name,
            question: $question,
            params: PARAMS,
            presets: $presets,
            formula: FORMULA,
            sure: SURE,
            limits: LIMITS,
            defaults: $crate::model::defaults::<Input>,
            run: |values| answer(&$crate::param::read(values)?),
            plot: $plot,
        };
    };
}
pub(crate) use model;
