//! `identify`: the controller's structures in nvme-cli's words.

mod controller;
mod field;
mod namespace;

use serde_json::{Value, json};
use warpbell::Ssd;
use warpbell_driver::{Data, Namespace};
use warpbell_nvme::command;
use warpbell_nvme::identify::{Cns, IdentifyNamespace};
use zerocopy::IntoBytes;

use crate::args::{Global, IdentifyArgs, Output};
use crate::exit::Ending;
use crate::open::{Access, open_all};
use crate::{out, units};

/// Name and version of the document's form.
const SCHEMA: &str = "warpbell.identify/1";
/// The same for several devices, each with a document of the form above.
const GROUP_SCHEMA: &str = "warpbell.identify-group/1";

/// Runs the command.
pub fn run(args: &IdentifyArgs, global: &Global) -> Result<(), Ending> {
    args.device.refuse_kernels("identify")?;
    let ssds = open_all(&args.device, Access::Read)?;
    match global.output() {
        Output::Normal => {
            let texts =
                ssds.iter().map(|ssd| text(ssd, global.verbose > 0)).collect::<Result<Vec<_>, _>>()?;
            out::text(&texts.join("\n"))
        }
        Output::Json => {
            let documents = ssds.iter().map(document).collect::<Result<Vec<_>, _>>()?;
            match &documents[..] {
                [document] => out::json(document),
                _ => out::json(&json!({
                    "schema": GROUP_SCHEMA,
                    "warpbell": env!("CARGO_PKG_VERSION"),
                    "devices": documents,
                })),
            }
        }
    }
}

fn text(ssd: &Ssd, verbose: bool) -> Result<String, Ending> {
    let mut text = format!("device    : {}\n", ssd.name());
    text += &format!("queues    : {} I/O queue pairs granted\n", ssd.granted_queues());
    if verbose {
        text += &format!("path      : {}\n", ssd.data_path());
    }
    text += "\nNVME Identify Controller:\n";
    text += &field::text(&controller::fields(ssd.identify(), ssd.max_transfer_bytes()), verbose);
    for namespace in ssd.namespaces() {
        let id = identify(ssd, namespace)?;
        text += &format!("\nNVME Identify Namespace {}:\n", namespace.nsid.get());
        text += &field::text(&namespace::fields(&id), verbose);
        text += &namespace::formats(&id);
        text += &format!("size      : {}\n", size(namespace));
    }
    Ok(text)
}

/// Blocks and bytes, and the length of the file where it is another one.
fn size(namespace: &Namespace) -> String {
    let (blocks, block) = (namespace.blocks, namespace.block_size);
    let text = format!("{blocks} blocks of {block} bytes, {}", units::bytes(namespace.bytes()));
    match namespace.exact_bytes {
        Some(bytes) => format!("{text}; contents of {bytes} bytes"),
        None => text,
    }
}

fn document(ssd: &Ssd) -> Result<Value, Ending> {
    let mut namespaces = Vec::new();
    for namespace in ssd.namespaces() {
        let id = identify(ssd, namespace)?;
        let mut value = field::json(&namespace::fields(&id));
        value["nsid"] = namespace.nsid.get().into();
        value["lbafs"] = namespace::formats_json(&id);
        value["block_size_bytes"] = namespace.block_size.into();
        value["size_bytes"] = namespace.bytes().into();
        value["contents_bytes"] = namespace.exact_bytes.into();
        namespaces.push(value);
    }
    Ok(json!({
        "schema": SCHEMA,
        "warpbell": env!("CARGO_PKG_VERSION"),
        "device": ssd.name().to_string(),
        "granted_queues": ssd.granted_queues(),
        "max_transfer_bytes": ssd.max_transfer_bytes(),
        "route": ssd.data_path().route,
        "controller": field::json(&controller::fields(ssd.identify(), ssd.max_transfer_bytes())),
        "namespaces": namespaces,
    }))
}

fn identify(ssd: &Ssd, namespace: &Namespace) -> Result<IdentifyNamespace, Ending> {
    let mut id = IdentifyNamespace::zeroed();
    let identify = command::identify(Cns::NAMESPACE, namespace.nsid.get());
    ssd.controller().admin(identify, Data::In(id.as_mut_bytes())).map_err(warpbell::Error::from)?;
    Ok(id)
}
