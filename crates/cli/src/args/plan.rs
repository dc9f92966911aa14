//! `plan`: a subcommand for each model, whose flags are the model's inputs.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use serde_json::{Map, Value};
use warpbell_plan::{Kind, MODELS, Model, Param, find, show_value};
use warpbell_workload::{ByteSize, TraceForm};

/// `plan`: a question to a model.
#[derive(Debug)]
pub struct PlanArgs {
    /// Who is asked.
    pub model: &'static Model,
    /// Inputs that were given.
    pub given: Map<String, Value>,
    /// A preset.
    pub preset: Option<String>,
    /// Constants that were measured.
    pub calib: Option<PathBuf>,
    /// Where a picture goes.
    pub svg: Option<PathBuf>,
    /// Where its points go.
    pub csv: Option<PathBuf>,
    /// Where the schedule of tiles goes.
    pub trace: Option<TraceTo>,
    /// Golden values in place of an answer.
    pub golden: bool,
    /// Every situation.
    pub all: bool,
}

/// Where the schedule of tiles goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceTo {
    /// To standard output, in place of the answer.
    Stdout,
    /// Into a file, beside the answer.
    File(PathBuf, TraceForm),
}

/// Flags that are no inputs of a model.
const COMMON: [&str; 7] = ["preset", "calib", "svg", "csv", "all", "trace", "trace_format"];

impl Args for PlanArgs {
    fn augment_args(command: Command) -> Command {
        command
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(MODELS.iter().map(|model| subcommand(model)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PlanArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<PlanArgs, clap::Error> {
        let wrong = |error: String| clap::Error::raw(clap::error::ErrorKind::ValueValidation, error);
        let Some((name, matches)) = matches.subcommand() else {
            return Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand));
        };
        let model = find(name).map_err(|error| wrong(error.to_string()))?;
        ask(model, matches).map_err(wrong)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = PlanArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

fn subcommand(model: &'static Model) -> Command {
    let about = model.question[..1].to_uppercase() + &model.question[1..];
    let inputs = model.params.iter().map(|param| param.name);
    let others: Vec<&str> = inputs.chain(COMMON).collect();
    let mut command = Command::new(model.name)
        .about(about)
        .allow_negative_numbers(true)
        .args(model.params.iter().map(|param| input(model, param)))
        .arg(file("calib", "Constants that were measured, in place of those of documents (JSON)"));
    if !model.presets.is_empty() {
        let names: Vec<String> =
            model.presets.iter().map(|preset| format!("{} ({})", preset.name, preset.meaning)).collect();
        let help = format!("Start from: {}", names.join("; "));
        command = command.arg(Arg::new("preset").long("preset").value_name("NAME").help(help));
    }
    if model.has_plot() {
        command = command
            .arg(file("svg", "Also draw how the answer changes over its main input"))
            .arg(file("csv", "Also write the points of that picture"));
    }
    if model.name == "situation" {
        let all = Arg::new("all").long("all").help("Every situation").action(ArgAction::SetTrue);
        command = command.arg(all.conflicts_with("case"));
    }
    if model.name == "tiles" {
        command = command.args(trace());
    }
    let there: Vec<String> = command.get_arguments().map(|one| one.get_id().to_string()).collect();
    let others: Vec<&str> = others.into_iter().filter(|name| there.iter().any(|one| one == name)).collect();
    let golden = Arg::new("golden").long("golden").action(ArgAction::SetTrue);
    command.arg(
        golden.help("Show values that the model is held to; fails if one is off").conflicts_with_all(others),
    )
}

/// The flag of an input.
fn input(model: &Model, param: &Param) -> Arg {
    let default = show_value(&model.default_of(param));
    let range = match param.kind {
        Kind::Choice(words) => format!(" [one of {}]", words.join(", ")),
        _ => String::new(),
    };
    let unit = if param.unit.is_empty() { "N" } else { param.unit };
    let value_name = match param.kind {
        Kind::Choice(_) => "WORD",
        Kind::Bytes | Kind::MaybeBytes => "SIZE",
        Kind::Weights => "N,...",
        _ => unit,
    };
    let help = format!("{}{range} [default: {default}]", param.meaning);
    Arg::new(param.name).long(flag(param.name)).value_name(value_name.to_owned()).help(help)
}

/// `--trace` and its form, in the words of `bench`.
fn trace() -> [Arg; 2] {
    let file = "Write when each tile is loaded and computed on: to FILE, or in place of the answer";
    let form = "Form of FILE: chrome (for viewers), or json";
    let parser = |text: &str| text.parse::<TraceForm>();
    [
        self::file("trace", file).num_args(0..=1),
        Arg::new("trace_format")
            .long("trace-format")
            .value_name("FORM")
            .help(form)
            .default_value(TraceForm::Chrome.word())
            .requires("trace")
            .value_parser(parser),
    ]
}

fn file(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("FILE").help(help).value_parser(value_parser!(PathBuf))
}

/// The flag of the input `name`.
pub fn flag(name: &str) -> String {
    name.replace('_', "-")
}

fn ask(model: &'static Model, matches: &ArgMatches) -> Result<PlanArgs, String> {
    let mut given = Map::new();
    for param in model.params {
        if let Some(text) = matches.get_one::<String>(param.name) {
            let value =
                value(param, text).map_err(|reason| format!("--{} '{text}': {reason}", flag(param.name)))?;
            given.insert(param.name.to_owned(), value);
        }
    }
    let is_set = |name| matches!(matches.try_contains_id(name), Ok(true)) && matches.get_flag(name);
    let path = |name| matches.try_get_one::<PathBuf>(name).ok().flatten().cloned();
    let preset = matches.try_get_one::<String>("preset").ok().flatten().cloned();
    let (calib, svg, csv, trace) = (path("calib"), path("svg"), path("csv"), trace_to(matches)?);
    Ok(PlanArgs {
        model,
        given,
        preset,
        calib,
        svg,
        csv,
        trace,
        golden: is_set("golden"),
        all: is_set("all"),
    })
}

/// What `--trace` asks for; only one model has it.
fn trace_to(matches: &ArgMatches) -> Result<Option<TraceTo>, String> {
    if !matches.try_contains_id("trace").unwrap_or(false) {
        return Ok(None);
    }
    let form = matches.get_one("trace_format").copied().unwrap_or(TraceForm::Chrome);
    match matches.get_one::<PathBuf>("trace") {
        Some(path) => Ok(Some(TraceTo::File(path.clone(), form))),
        None if matches.value_source("trace_format") == Some(ValueSource::CommandLine) => {
            Err(format!("--trace-format {form}: it is of a file: --trace FILE"))
        }
        None => Ok(Some(TraceTo::Stdout)),
    }
}

/// The value of an input, as it was typed.
fn value(param: &Param, text: &str) -> Result<Value, String> {
    match param.kind {
        Kind::Choice(_) => Ok(text.into()),
        Kind::Bytes | Kind::MaybeBytes => {
            text.parse::<ByteSize>().map(|size| size.0.into()).map_err(|error| error.to_string())
        }
        Kind::Count(_) | Kind::Whole(_) => {
            text.parse::<u64>().map(Value::from).map_err(|_| "expected a whole number".to_owned())
        }
        Kind::Weights => text.split(',').map(number).collect::<Result<Vec<Value>, String>>().map(Value::from),
        Kind::Positive | Kind::Number | Kind::Share | Kind::Fraction => number(text),
    }
}

fn number(text: &str) -> Result<Value, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number.into()),
        _ => Err("expected a number".to_owned()),
    }
}
