//! `serve`: a controller on a vfio-user socket, for one client after the other.
//!
//! One line of output for each thing that happens: a text, or with `-o json` a JSON document.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use serde_json::{Value, json};
use warpbell::{DeviceName, same_file};
use warpbell_softctl::{
    FaultPlan, LOG_LIMIT, SoftConfig, SoftDevice, Statistics, StoreConfig, Violation, serial_of,
};
use warpbell_vfio::user::{Server, ServerError, ServerEvent, ServerOptions, SessionCounts};

use crate::args::{Doorbells, Global, Output, ServeArgs};
use crate::exit::{Ending, FAILED, REFUSED, USAGE};
use crate::{out, units};

/// Name and version of the events' form.
const SCHEMA: &str = "warpbell.serve/1";
/// The longest that a poller with queues sleeps: a guest's first command after a while waits no longer than this.
const LONGEST_NAP: Duration = Duration::from_micros(100);

/// Runs the command.
pub fn run(args: &ServeArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    let config = configuration(args)?;
    let served = describe(&config, args);
    raise_descriptor_limit()?;
    let device = SoftDevice::threaded(config).map_err(warpbell::Error::from)?;
    let options = ServerOptions::new().doorbells(args.doorbells.into()).clients(args.clients);
    let server = Server::bind(&args.socket, device.clone(), options)?;
    let mut report = Report::new(device, global.output());
    let details = serde_json::to_value(&served).map_err(Ending::failed)?;
    report.line("listening", &served.text(args), details)?;
    let mut result = Ok(());
    server.run(&stop, |event| {
        let told = report.tell(event);
        if result.is_ok() {
            result = told;
        }
    })?;
    drop(server);
    result?;
    report.finish(args.strict)
}

/// Each mapping of a client keeps a file descriptor. The usual limit, 1024, is meant for what cannot take more.
fn raise_descriptor_limit() -> Result<(), Ending> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).map_err(Ending::failed)
}

/// The soft controller that the command line asks for.
fn configuration(args: &ServeArgs) -> Result<SoftConfig, Ending> {
    let name = match (&args.device, &args.size) {
        (Some(DeviceName::Soft(text)), _) => text.clone(),
        (Some(other), _) => {
            let what = format!("device '{other}' cannot be served: only soft: controllers can");
            return Err(Ending::usage(what));
        }
        (None, Some(size)) => format!("size={}", size.0),
        (None, None) => return Err(Ending::usage("no device: name one, such as soft:size=1g, or --size 1g")),
    };
    let mut config = SoftConfig::parse(&name).map_err(warpbell::Error::from)?;
    if !config.serial_is_own {
        // Two servers are two SSDs, and one that is started again is the same.
        (config.serial, config.serial_is_own) = (serial_of(&args.socket), true);
    }
    if config.virtual_time {
        return Err(Ending::usage("time=virtual: clients of a socket live in real time; leave it out"));
    }
    if let Some(plan) = &args.fault {
        config.faults = FaultPlan::load(plan).map_err(Ending::usage)?;
    }
    permit(&mut config, args)?;
    config.longest_nap = LONGEST_NAP;
    Ok(config)
}

/// Clients write a file only if its own path was named.
fn permit(config: &mut SoftConfig, args: &ServeArgs) -> Result<(), Ending> {
    for namespace in &mut config.namespaces {
        let StoreConfig::File { path, writable } = &mut namespace.store else { continue };
        let allowed = args.allow_write.iter().any(|name| same_file(path, name));
        if *writable && !allowed {
            let path = path.display();
            let what =
                format!("clients may not write to {path}: name it in --allow-write={path} to permit it");
            return Err(Ending::new(REFUSED, what));
        }
        *writable = allowed;
    }
    Ok(())
}

impl From<ServerError> for Ending {
    fn from(error: ServerError) -> Ending {
        let code = match &error {
            ServerError::NotASocket { .. } => USAGE,
            ServerError::System { source, .. } if source.kind() == std::io::ErrorKind::NotFound => USAGE,
            _ => FAILED,
        };
        Ending::new(code, error)
    }
}

/// One namespace of what is served.
#[derive(Debug, Serialize)]
struct Namespace {
    nsid: usize,
    size_bytes: u64,
    block_size_bytes: u32,
    writable: bool,
}

/// What is served.
#[derive(Debug, Serialize)]
struct Served {
    socket: String,
    serial: String,
    doorbells: &'static str,
    namespaces: Vec<Namespace>,
}

fn describe(config: &SoftConfig, args: &ServeArgs) -> Served {
    let namespace = |(index, one): (usize, &warpbell_softctl::NamespaceConfig)| {
        let (size_bytes, writable) = match &one.store {
            StoreConfig::Memory { bytes } => (*bytes, true),
            StoreConfig::File { path, writable } => {
                (std::fs::metadata(path).map_or(0, |metadata| metadata.len()), *writable)
            }
        };
        Namespace { nsid: index + 1, size_bytes, block_size_bytes: one.block_size, writable }
    };
    Served {
        socket: args.socket.display().to_string(),
        serial: config.serial.clone(),
        doorbells: match args.doorbells {
            Doorbells::Mapped => "mapped",
            Doorbells::Message => "message",
        },
        namespaces: config.namespaces.iter().enumerate().map(namespace).collect(),
    }
}

impl Served {
    fn text(&self, args: &ServeArgs) -> String {
        let each = self.namespaces.iter().map(|one| {
            let kept = if one.writable { "" } else { ", read only" };
            format!("{} in {}B blocks{kept}", units::bytes(one.size_bytes), one.block_size_bytes)
        });
        let (socket, doorbells) = (args.socket.display(), self.doorbells);
        let namespaces = each.collect::<Vec<_>>().join("; ");
        format!("listening on {socket}: {}, {namespaces}; doorbells {doorbells}", self.serial)
    }
}

/// Says what happens.
struct Report {
    device: Arc<SoftDevice>,
    output: Output,
    before: Statistics,
    told: usize,
    clients: u64,
}

impl Report {
    fn new(device: Arc<SoftDevice>, output: Output) -> Report {
        Report { device, output, before: Statistics::default(), told: 0, clients: 0 }
    }

    fn line(&self, kind: &str, text: &str, details: Value) -> Result<(), Ending> {
        match self.output {
            Output::Normal => out::text(&format!("{text}\n")),
            Output::Json => {
                let mut document = json!({ "schema": SCHEMA, "event": kind });
                if let (Value::Object(document), Value::Object(details)) = (&mut document, details) {
                    document.extend(details);
                }
                out::text(&format!("{document}\n"))
            }
        }
    }

    fn tell(&mut self, event: ServerEvent) -> Result<(), Ending> {
        self.violations()?;
        match event {
            ServerEvent::Tick => Ok(()),
            ServerEvent::Come { client } => {
                self.clients = client;
                self.before = self.device.statistics();
                self.line("come", &format!("client {client} has come"), json!({ "client": client }))
            }
            ServerEvent::Unreachable { client, address, size } => {
                let text = format!(
                    "client {client} mapped {} at {address:#x} without a file: the controller cannot reach it (QEMU \
                     needs -object memory-backend-memfd,share=on)",
                    units::bytes(size)
                );
                let details = json!({ "client": client, "address": address, "size_bytes": size });
                self.line("unreachable", &text, details)
            }
            ServerEvent::Gone { client, ended, counts } => self.gone(client, &ended.to_string(), counts),
        }
    }

    fn gone(&mut self, client: u64, ended: &str, counts: SessionCounts) -> Result<(), Ending> {
        let (now, before) = (self.device.statistics(), &self.before);
        let sum = |all: &[u64; 256]| all.iter().sum::<u64>();
        let admin = sum(&now.admin_commands) - sum(&before.admin_commands);
        let io = now.total_commands() - before.total_commands();
        let errors = now.errors - before.errors;
        let (read, written) = (now.bytes_read - before.bytes_read, now.bytes_written - before.bytes_written);
        let (interrupts, violations) =
            (now.interrupts - before.interrupts, now.violations - before.violations);
        let SessionCounts { messages, refused, doorbells } = counts;
        let text = format!(
            "client {client} is gone ({ended}): {admin} admin and {io} I/O commands ({errors} failed), {} read, {} \
             written, {interrupts} interrupts, {messages} messages ({refused} refused, {doorbells} doorbells), \
             {violations} violations",
            units::bytes(read),
            units::bytes(written),
        );
        let details = json!({
            "client": client, "ended": ended, "admin_commands": admin, "io_commands": io, "errors": errors,
            "read_bytes": read, "written_bytes": written, "interrupts": interrupts, "messages": messages,
            "messages_refused": refused, "message_doorbells": doorbells, "violations": violations,
        });
        self.line("gone", &text, details)
    }

    /// Tells the violations that were not told yet.
    fn violations(&mut self) -> Result<(), Ending> {
        if self.told == LOG_LIMIT {
            return Ok(());
        }
        for Violation { rule, detail, section } in self.device.violations().into_iter().skip(self.told) {
            self.told += 1;
            let text = format!("violation: {}: {detail} ({section})", rule.name());
            self.line(
                "violation",
                &text,
                json!({ "rule": rule.name(), "detail": detail, "section": section }),
            )?;
        }
        Ok(())
    }

    fn finish(mut self, strict: bool) -> Result<(), Ending> {
        self.violations()?;
        let (clients, violations) = (self.clients, self.device.statistics().violations);
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let text = format!(
            "served {clients} client{}, {violations} violation{}",
            plural(clients),
            plural(violations)
        );
        self.line("end", &text, json!({ "clients": clients, "violations": violations }))?;
        if strict && violations > 0 {
            let what = format!("{violations} violations of the specification by clients, and --strict");
            return Err(Ending::failed(what));
        }
        Ok(())
    }
}
