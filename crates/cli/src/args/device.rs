//! Which device, and what may be done to it.

use std::path::PathBuf;

use clap::Args;
use warpbell::{DeviceName, DoorbellChoice, Named, Place, RingPlaces, Target};
use warpbell_vfio::IommuChoice;
use warpbell_workload::{Dbbuf, Opening, data_place};

use crate::exit::Ending;

/// Which device, and what may be done to it.
#[derive(Clone, Debug, Args)]
pub struct DeviceArgs {
    /// The device: soft:size=1g, soft:file=PATH, a PCI address, sn:SERIAL, vfio-user:SOCKET; bench and identify take
    /// several; digest, read, bench and files also a file of its file system, as DEVICE#/path
    #[arg(value_name = "DEVICE")]
    pub positional: Vec<Named>,
    /// The device, as an option
    #[arg(short, long, value_name = "DEVICE")]
    pub device: Vec<Named>,
    /// Where kernels run: cpu, cuda:N, or ptx (what NVRTC makes for a GPU, run here with checks), ptx:OPTIONS
    #[arg(long, default_value = "cpu")]
    pub target: Target,
    /// Permit writes to the device with this path, serial number, PCI address or socket, or as NAME#/path to blocks of this
    /// file of it; may be given again
    #[arg(long, value_name = "PATH|SERIAL|BDF|SOCKET", require_equals = true)]
    pub allow_write: Vec<String>,
    /// Faults for the software controller to inject, as TOML
    #[arg(long, value_name = "PLAN")]
    pub fault: Option<PathBuf>,
    /// Doorbells in memory that the controller polls (Doorbell Buffer Config): auto, on or off
    #[arg(long, value_name = "WHEN", default_value = "auto", hide_short_help = true)]
    pub dbbuf: Dbbuf,
    /// How kernels ring doorbells: auto (mapped where a command proves it, else forwarded, with the reason), mapped, or
    /// forwarded (by a CPU thread)
    #[arg(long, value_name = "HOW", default_value = "auto", hide_short_help = true)]
    pub doorbells: DoorbellChoice,
    /// Which way to the IOMMU, for PCI functions: auto, type1, iommufd, or noiommu (no protection at all)
    #[arg(long, value_name = "WAY", default_value = "auto", hide_short_help = true)]
    pub iommu: IommuChoice,
    /// Where rings lie: host, cmb (submission rings in the controller memory buffer), hbm (memory of the GPU that
    /// --target names), bar:BDF/N (BAR N of another PCI function), or each kind by itself as sq=PLACE,cq=PLACE
    #[arg(long, value_name = "PLACE", default_value = "host", hide_short_help = true)]
    pub rings: RingPlaces,
    /// Where data lies: host, hbm (memory of the GPU that --target names), or bar:BDF/N
    #[arg(long, value_name = "PLACE", default_value = "host", value_parser = data_place, hide_short_help = true)]
    pub data: Place,
    /// 32-bit command identifiers (experimental; soft:...,wide_cids=on offers them)
    #[arg(long, hide_short_help = true)]
    pub wide_cids: bool,
}

impl DeviceArgs {
    /// A device that no kernel uses, named by a command with arguments of its own.
    pub fn of_host(named: Named, allow_write: Vec<String>, fault: Option<PathBuf>) -> DeviceArgs {
        let Opening { dbbuf, doorbells, iommu, rings, data, wide_cids, .. } = Opening::default();
        DeviceArgs {
            positional: vec![named],
            device: Vec::new(),
            target: Target::Cpu,
            allow_write,
            fault,
            dbbuf,
            doorbells,
            iommu,
            rings,
            data,
            wide_cids,
        }
    }

    /// How these ask for the device to be opened.
    pub fn opening(&self) -> Opening {
        Opening {
            dbbuf: self.dbbuf,
            doorbells: self.doorbells,
            iommu: self.iommu,
            rings: self.rings,
            data: self.data,
            wide_cids: self.wide_cids,
            fault: self.fault.clone(),
        }
    }

    /// The same device, to be opened otherwise.
    pub fn opened_as(&self, opening: &Opening) -> DeviceArgs {
        let Opening { dbbuf, doorbells, iommu, rings, data, wide_cids, fault } = opening.clone();
        DeviceArgs { dbbuf, doorbells, iommu, rings, data, wide_cids, fault, ..self.clone() }
    }

    /// Files and folders of one device: each is named with it.
    pub fn paths(&self) -> Result<(&DeviceName, Vec<&str>), Ending> {
        let all = self.all()?;
        let device = &all[0].device;
        let mut paths = Vec::new();
        for named in all {
            match &named.path {
                Some(path) if named.device == *device => paths.push(path.as_str()),
                Some(_) => {
                    return Err(Ending::usage(format!(
                        "{named}: this command takes paths of one device, {device}"
                    )));
                }
                None => {
                    return Err(Ending::usage(format!(
                        "{named}: name files or folders of it, as {named}#/path"
                    )));
                }
            }
        }
        Ok((device, paths))
    }

    /// Refuses what only kernels have, of a command that runs none: it would be ignored.
    pub fn refuse_kernels(&self, command: &str) -> Result<(), Ending> {
        let refuse = |what: String, instead: &str| {
            Err(Ending::usage(format!("{what}: {command} runs no kernels{instead}")))
        };
        if self.data == Place::Hbm {
            let instead = ", and the host's queues take their data in host memory";
            return refuse(format!("--data {}", self.data), instead);
        }
        if [self.rings.sq, self.rings.cq].contains(&Place::Hbm) {
            let instead = ", and the host's queues have their rings in host memory";
            return refuse(format!("--rings {}", self.rings), instead);
        }
        match (self.target, self.doorbells) {
            (Target::Cuda(_) | Target::Ptx | Target::PtxWith(_), _) => {
                refuse(format!("--target {}", self.target), "; leave it out")
            }
            (_, DoorbellChoice::Auto) => Ok(()),
            (_, choice) => {
                refuse(format!("--doorbells {choice}"), ", and the host rings by itself; leave it out")
            }
        }
    }

    /// Whether a file of a device is named.
    pub fn has_path(&self) -> bool {
        self.positional.iter().chain(&self.device).any(|named| named.path.is_some())
    }

    /// The only device's name.
    pub fn name(&self) -> Result<&DeviceName, Ending> {
        whole(self.named()?)
    }

    /// The only device, and which file of it, if one is named.
    pub fn named(&self) -> Result<&Named, Ending> {
        match self.all()?[..] {
            [named] => Ok(named),
            ref all => Err(Ending::usage(format!(
                "{} devices: this command takes one; bench and identify take several",
                all.len()
            ))),
        }
    }

    /// All names of devices, with and without files of these.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceName> {
        self.positional.iter().chain(&self.device).map(|named| &named.device)
    }

    /// The devices' names, each of them once.
    pub fn names(&self) -> Result<Vec<&DeviceName>, Ending> {
        let names = self.all()?.into_iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        // Two soft controllers in memory of the same size are two; anything else is one SSD.
        let twice = |(at, name): (usize, &&DeviceName)| {
            !matches!(name, DeviceName::Soft(_)) && names[..at].contains(name)
        };
        match names.iter().enumerate().find(|each| twice(*each)) {
            Some((_, name)) => Err(Ending::usage(format!("device '{name}' is named twice"))),
            None => Ok(names),
        }
    }

    fn all(&self) -> Result<Vec<&Named>, Ending> {
        let all: Vec<&Named> = self.positional.iter().chain(&self.device).collect();
        if all.is_empty() {
            let missing = "no device: name one, such as soft:size=1g, soft:file=PATH or 0000:41:00.0";
            return Err(Ending::usage(missing));
        }
        Ok(all)
    }
}

/// A device that is taken whole. What stands behind `#/` would be ignored.
fn whole(named: &Named) -> Result<&DeviceName, Ending> {
    match &named.path {
        None => Ok(&named.device),
        Some(path) => Err(Ending::usage(format!(
            "{named}: this command takes a whole device, not file {path} of it; digest, read, bench of one device and files \
             take a file"
        ))),
    }
}
