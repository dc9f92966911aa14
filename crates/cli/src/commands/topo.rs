//! `topo`: the PCIe tree of GPUs and SSDs, and which SSD is nearest to a GPU.

use serde::Serialize;
use warpbell_platform::{Machine, Topology};

use crate::args::{Global, Output, TopoArgs};
use crate::exit::{Ending, MISSING};
use crate::out;
use crate::outputs::{self, Outputs};
use crate::tree::Tree;

/// Name and version of the document's form.
const SCHEMA: &str = "warpbell.topo/1";

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    warpbell: &'static str,
    #[serde(flatten)]
    topology: Topology,
}

/// Runs the command.
pub fn run(args: &TopoArgs, global: &Global) -> Result<(), Ending> {
    let machine = Machine::read(Tree::at(&args.root)?.sysfs());
    let mut topology = Topology::of(&machine);
    if let Some(index) = args.gpu {
        let gpus = machine.gpus.len();
        if gpus == 0 {
            return Err(Ending::new(
                MISSING,
                format!("--gpu {index}: no NVIDIA GPU on the PCIe tree (see warpbell check)"),
            ));
        }
        if index >= gpus {
            return Err(Ending::usage(format!("--gpu {index}: this machine has GPUs 0 to {}", gpus - 1)));
        }
        topology = topology.only(index);
    }
    if let Some(file) = &args.svg {
        let mut outputs = Outputs::new();
        outputs.keep("the file of --root", &args.root);
        outputs.claim("--svg", file)?;
        outputs::write("--svg", file, &topology.svg())?;
    }
    match global.output() {
        Output::Normal => out::text(&topology.text()),
        Output::Json => {
            out::json(&Document { schema: SCHEMA, warpbell: env!("CARGO_PKG_VERSION"), topology })
        }
    }
}
