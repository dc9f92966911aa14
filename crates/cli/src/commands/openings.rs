//! The openings of a sweep: the SSDs are opened anew where an axis changes an option of opening; all other points share what
//! is open.

use std::sync::Arc;

use warpbell::Ssd;
use warpbell_softctl::FaultPlan;
use warpbell_workload::{BenchOptions, Control, NamedFile, Opening};

use crate::args::{BenchArgs, DeviceArgs};
use crate::events::Release;
use crate::exit::Ending;
use crate::open::{Access, open_all, open_file};
use crate::part::{named_file, writable_file};

/// What is open.
pub struct Opened {
    /// The SSDs.
    pub ssds: Vec<Ssd>,
    /// What of the only one is read, if it is a file.
    pub file: Option<Arc<NamedFile>>,
}

/// The ways in which the points of a sweep want the SSDs opened, of which one is at a time.
pub struct Openings<'a> {
    args: &'a BenchArgs,
    access: Access,
    all: Vec<Opening>,
    open: Option<(usize, Opened)>,
    control: Control,
    release: Release,
}

impl<'a> Openings<'a> {
    /// Those of `points`, in the order in which these want them. `control` is stopped when the system asks for an SSD.
    pub fn new(
        args: &'a BenchArgs,
        access: Access,
        points: &[BenchOptions],
        control: &Control,
    ) -> Result<Openings<'a>, Ending> {
        let mut all: Vec<Opening> = Vec::new();
        for BenchOptions { opening, .. } in points {
            if !all.contains(opening) {
                // A plan that cannot be read is a mistake, and no corner of the sweep.
                opening.fault.as_deref().map(FaultPlan::load).transpose().map_err(Ending::usage)?;
                all.push(opening.clone());
            }
        }
        Ok(Openings { args, access, all, open: None, control: control.clone(), release: Release::default() })
    }

    /// All of them.
    pub fn all(&self) -> &[Opening] {
        &self.all
    }

    /// The SSDs, opened in the way of this index; they stay open until another one is wanted.
    pub fn at(&mut self, index: usize) -> Result<&Opened, Ending> {
        let opened = match self.open.take().filter(|(open, _)| *open == index) {
            Some((_, opened)) => opened,
            // What was open is closed by now: most SSDs are opened by one at a time.
            None => self.opened(&self.args.device.opened_as(&self.all[index]))?,
        };
        Ok(&self.open.insert((index, opened)).1)
    }

    /// The SSDs that are open.
    pub fn ssds(&self) -> &[Ssd] {
        self.open.as_ref().map_or(&[], |(_, opened)| &opened.ssds)
    }

    /// Whether the system asked for one back.
    pub fn asked_back(&self) -> bool {
        self.release.asked()
    }

    fn opened(&self, device: &DeviceArgs) -> Result<Opened, Ending> {
        let opened = self.named(device)?;
        opened.ssds.iter().for_each(|ssd| self.release.watch(ssd, &self.control));
        Ok(opened)
    }

    /// All devices; or the only one, and what of it is read.
    fn named(&self, device: &DeviceArgs) -> Result<Opened, Ending> {
        let (access, args) = (self.access, self.args);
        if !device.has_path() && !args.part.is_given() {
            return Ok(Opened { ssds: open_all(device, access)?, file: None });
        }
        let named = device.named()?;
        let ssd = open_file(device, named, access)?;
        let part = (args.nsid, &args.part);
        let file = match access {
            Access::Read => named_file(&ssd, named, part)?,
            Access::Write { .. } => {
                let name = named.path.clone().unwrap_or_default();
                Some(NamedFile::of_writable(name, writable_file(&ssd, named, part)?))
            }
        };
        Ok(Opened { ssds: vec![ssd], file: file.map(Arc::new) })
    }
}
