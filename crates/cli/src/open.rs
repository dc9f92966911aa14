//! Opens the device that the command line names, for as much as the command line permits.

mod mounted;
mod turn;

use std::sync::Arc;

use warpbell::{
    Bdf, DataPlacement, DeviceName, ForeignMemory, Gpu, Named, OpenOptions, Place, RingPlace, RingPlacement,
    Ssd,
};
use warpbell_softctl::FaultPlan;
use warpbell_vfio::{IommuChoice, PciOptions};
use warpbell_workload::DATA_PLACES;

use crate::args::DeviceArgs;
use crate::events;
use crate::exit::{Ending, explained};
use crate::permission;
use warpbell_hw::Nsid;

/// What a command does to the namespace that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It also writes, to this namespace.
    Write {
        /// The namespace.
        nsid: Nsid,
    },
}

/// Opens the only device of `args`.
pub fn open(args: &DeviceArgs, access: Access) -> Result<Ssd, Ending> {
    open_named(args, args.name()?, access)
}

/// Opens the only device of `args` to read, with weighted round robin between its queues.
pub fn open_weighted(args: &DeviceArgs) -> Result<Ssd, Ending> {
    let name = args.name()?;
    let options = options(args, name, Access::Read, placements(args)?)?.weighted_round_robin(true);
    opened(name, Access::Read, &options).map_err(|ending| match name {
        DeviceName::Soft(text) if !text.contains("wrr=on") => {
            ending.and("a soft controller has weights with wrr=on")
        }
        _ => ending,
    })
}

/// Opens a device that is named with a file of it.
pub fn open_named(args: &DeviceArgs, name: &DeviceName, access: Access) -> Result<Ssd, Ending> {
    open_one(args, name, access, placements(args)?)
}

/// Opens a device that is named with a file of it. To write there, `--allow-write` must name both.
pub fn open_file(args: &DeviceArgs, named: &Named, access: Access) -> Result<Ssd, Ending> {
    let (Access::Write { nsid }, Some(path)) = (access, &named.path) else {
        return open_named(args, &named.device, access);
    };
    let allow_write = permission::of_file(&named.device, (nsid, path), &args.allow_write)?;
    permission::before(&named.device, &allow_write, nsid)?;
    mounted::refuse(named, nsid)?;
    open_named(&DeviceArgs { allow_write, ..args.clone() }, &named.device, access)
}

/// Opens all devices of `args`. They share the memory that rings and data are placed in.
pub fn open_all(args: &DeviceArgs, access: Access) -> Result<Vec<Ssd>, Ending> {
    let names = args.names()?;
    if let Access::Write { nsid } = access {
        // All are checked before the first is touched.
        names.iter().try_for_each(|name| permission::before(name, &args.allow_write, nsid))?;
    }
    let placements = placements(args)?;
    names.into_iter().map(|name| open_one(args, name, access, placements.clone())).collect()
}

fn open_one(
    args: &DeviceArgs,
    name: &DeviceName,
    access: Access,
    placements: (RingPlacement, DataPlacement),
) -> Result<Ssd, Ending> {
    opened(name, access, &options(args, name, access, placements)?)
}

/// How a device of `args` is opened.
fn options(
    args: &DeviceArgs,
    name: &DeviceName,
    access: Access,
    (rings, data): (RingPlacement, DataPlacement),
) -> Result<OpenOptions, Ending> {
    if let Access::Write { nsid } = access {
        permission::before(name, &args.allow_write, nsid)?;
    }
    if args.iommu != IommuChoice::Auto && matches!(name, DeviceName::Soft(_) | DeviceName::VfioUser(_)) {
        return Err(Ending::usage(format!(
            "--iommu {}: {name} is not behind an IOMMU of this machine; only PCI functions are",
            args.iommu
        )));
    }
    let faults = args.fault.as_deref().map(FaultPlan::load).transpose().map_err(Ending::usage)?;
    let allow_write = match access {
        Access::Read => Vec::new(),
        Access::Write { .. } => args.allow_write.clone(),
    };
    Ok(OpenOptions::new()
        .allow_write(allow_write)
        .faults(faults)
        .doorbell_buffer(args.dbbuf.into())
        .doorbells(args.doorbells)
        .wide_cids(args.wide_cids)
        .rings(rings)
        .data(data)
        .pci(PciOptions::new().iommu(args.iommu)))
}

/// Opens a device to ask it what it is like.
pub fn open_to_read(name: &DeviceName) -> Result<Ssd, Ending> {
    opened(name, Access::Read, &OpenOptions::default())
}

/// Opens a device to overwrite a part of it that nobody needs.
pub fn open_scratch(
    name: &DeviceName,
    nsid: Nsid,
    allow_write: &[String],
    options: OpenOptions,
) -> Result<Ssd, Ending> {
    permission::before(name, allow_write, nsid)?;
    let options = options.allow_write(allow_write.to_vec());
    opened(name, Access::Write { nsid }, &options)
}

fn opened(name: &DeviceName, access: Access, options: &OpenOptions) -> Result<Ssd, Ending> {
    let ssd = turn::open(name, options)?;
    events::show(&ssd);
    if let Some(warning) = ssd.pci().and_then(|pci| pci.route().backend.warning()) {
        eprintln!("warning: {name}: {warning}");
    }
    match access {
        Access::Read => {}
        Access::Write { .. } => permission::after(&ssd, &options.allow_write)?,
    }
    Ok(ssd)
}

/// A failure with its cause, where that is the system's about the file of a soft controller: a status has no room for it.
pub fn because(ssd: &Ssd, ending: Ending) -> Ending {
    match ssd.soft().and_then(|soft| soft.store_failure()) {
        Some(failure) => ending.and(&failure),
        None => ending,
    }
}

/// Where rings and data go.
fn placements(args: &DeviceArgs) -> Result<(RingPlacement, DataPlacement), Ending> {
    let mut memories = Memories { args, bars: Vec::new() };
    let rings = args.rings.find(|place| memories.of_rings(place))?;
    Ok((rings, memories.of_data()?))
}

/// What is behind the places of a command line. The same BAR is one memory, for rings and data.
struct Memories<'a> {
    args: &'a DeviceArgs,
    bars: Vec<(Bdf, u8, Arc<ForeignMemory>)>,
}

impl Memories<'_> {
    fn bar(&mut self, bdf: Bdf, bar: u8) -> Result<Arc<ForeignMemory>, Ending> {
        if let Some((.., memory)) = self.bars.iter().find(|known| (known.0, known.1) == (bdf, bar)) {
            return Ok(memory.clone());
        }
        let memory = ForeignMemory::bar(bdf, bar)?;
        self.bars.push((bdf, bar, memory.clone()));
        Ok(memory)
    }

    /// The GPU whose memory `hbm` is.
    fn gpu(&self, option: &str) -> Result<Arc<Gpu>, Ending> {
        let target = self.args.target.open()?;
        target.gpu().cloned().ok_or_else(|| {
            Ending::usage(format!(
                "{option} hbm: target {} has no memory of its own; use --target cuda:N or ptx",
                self.args.target
            ))
        })
    }

    fn of_rings(&mut self, place: Place) -> Result<RingPlace, Ending> {
        Ok(match place {
            Place::Host => RingPlace::Host,
            Place::Cmb => RingPlace::Cmb,
            Place::Bar(bdf, bar) => RingPlace::Foreign(self.bar(bdf, bar)?),
            Place::Hbm => RingPlace::Hbm(self.gpu("--rings")?),
        })
    }

    fn of_data(&mut self) -> Result<DataPlacement, Ending> {
        Ok(match self.args.data {
            Place::Host => DataPlacement::Host,
            Place::Cmb => {
                let why =
                    "data cannot lie in the controller memory buffer, which takes submission rings only";
                return Err(Ending::usage(format!("--data: 'cmb': {why}; expected {DATA_PLACES}")));
            }
            Place::Bar(bdf, bar) => DataPlacement::Foreign(self.bar(bdf, bar)?),
            Place::Hbm => DataPlacement::Hbm(self.gpu("--data")?),
        })
    }
}

impl From<warpbell::Error> for Ending {
    fn from(error: warpbell::Error) -> Ending {
        Ending::new(error.exit_code(), explained(&error))
    }
}

impl From<warpbell_workload::RunError> for Ending {
    fn from(error: warpbell_workload::RunError) -> Ending {
        use warpbell_workload::RunError;
        match error {
            RunError::Stream { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe => {
                Ending::from(source)
            }
            RunError::Warpbell(error) => error.into(),
            error => Ending::new(error.exit_code(), explained(&error)),
        }
    }
}
