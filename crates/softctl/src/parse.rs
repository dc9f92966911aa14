//! The configuration as a device name carries it: what follows `soft:`.
//!
//! `size=1g,block=512,queues=64` or `file=PATH,writable=on`. Each `size` or `file` begins a namespace; `block` and
//! `writable` are about the namespace before them, or, before the first, about all. Sizes take k, m, g and t
//! (powers of 1024), kB, MB, GB and TB (powers of 1000). A comma in a path is written `\,`.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use warpbell_base::SizeError;

use crate::config::{
    ClientModel, ClientRings, CompletionOrder, DoorbellBufferMode, NamespaceConfig, SoftConfig,
    SoftConfigError, StoreConfig,
};
use crate::fault::FaultPlan;
use crate::profile::Profile;
use crate::serial::serial_of;
use crate::subsystem::Health;
use crate::units;

const KEYS: &str = "size, file, block, writable, capacity, max_namespaces, queues, grant, entries, mdts, sgl, \
                    version, lacks, wzsl, dmrl, dmrsl, dmsl, stride, dbbuf, wrr, wide_cids, cmb, pollers, pin, faults, \
                    profile, slots, time, cache, client, rings, power, crdt, rtd3e, health, order, seed, poison, \
                    serial, model, firmware";

/// How names of files with profiles end: other profiles have names of their own.
const PROFILE_FILE: &str = ".toml";

impl SoftConfig {
    /// Reads the settings that follow `soft:` in a device name, and checks them.
    pub fn parse(text: &str) -> Result<SoftConfig, SoftConfigError> {
        let mut parser = Parser::new();
        for setting in split(text) {
            let (key, value) =
                setting.split_once('=').ok_or_else(|| SoftConfigError::NoValue { text: setting.clone() })?;
            parser.set(key.trim(), value.trim())?;
        }
        let config = parser.finish();
        config.validate()?;
        Ok(config)
    }
}

impl SoftConfig {
    /// The files with plans of faults and profiles that such a text names. Their content is part of the configuration.
    pub fn plans(text: &str) -> Vec<PathBuf> {
        let setting = |setting: String| {
            let (key, value) = setting.split_once('=')?;
            let (key, value) = (key.trim(), value.trim());
            let names = key == "faults" || key == "profile" && value.ends_with(PROFILE_FILE);
            names.then(|| PathBuf::from(value))
        };
        split(text).into_iter().filter_map(setting).collect()
    }
}

/// Splits at commas that no backslash escapes; empty pieces do not count.
fn split(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some(',')) => pieces.last_mut().into_iter().for_each(|piece| piece.push(',')),
            (',', _) => {
                pieces.push(String::new());
                continue;
            }
            _ => {
                pieces.last_mut().into_iter().for_each(|piece| piece.push(character));
                continue;
            }
        }
        characters.next();
    }
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

struct Parser {
    config: SoftConfig,
    seen: Vec<(String, String)>,
    block: u32,
    writable: bool,
}

impl Parser {
    fn new() -> Parser {
        let config = SoftConfig { namespaces: Vec::new(), ..SoftConfig::default() };
        Parser { config, seen: Vec::new(), block: 512, writable: false }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), SoftConfigError> {
        match key {
            "size" => {
                let bytes = size(key, value)?;
                self.begin(StoreConfig::Memory { bytes });
            }
            "file" => {
                if value.is_empty() {
                    return Err(SoftConfigError::value(key, value, "must be a path"));
                }
                self.begin(StoreConfig::File { path: value.into(), writable: self.writable });
            }
            "block" => self.block(size(key, value)?)?,
            "writable" => self.writable(switch(key, value)?)?,
            _ => {
                self.once(key, value)?;
                self.device(key, value)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, store: StoreConfig) {
        self.config.namespaces.push(NamespaceConfig { block_size: self.block, store });
    }

    fn block(&mut self, bytes: u64) -> Result<(), SoftConfigError> {
        let block = u32::try_from(bytes).unwrap_or(u32::MAX);
        if !matches!(block, 512 | 4096) {
            return Err(SoftConfigError::value("block", bytes, "must be 512 or 4096 bytes"));
        }
        match self.config.namespaces.last_mut() {
            Some(namespace) => namespace.block_size = block,
            None => self.block = block,
        }
        Ok(())
    }

    fn writable(&mut self, on: bool) -> Result<(), SoftConfigError> {
        match self.config.namespaces.last_mut().map(|namespace| &mut namespace.store) {
            Some(StoreConfig::File { writable, .. }) => *writable = on,
            Some(StoreConfig::Memory { .. }) => {
                let limit = "applies to file= only; memory is always writable";
                return Err(SoftConfigError::value("writable", if on { "on" } else { "off" }, limit));
            }
            None => self.writable = on,
        }
        Ok(())
    }

    fn once(&mut self, key: &str, value: &str) -> Result<(), SoftConfigError> {
        if let Some((key, first)) = self.seen.iter().find(|(seen, _)| seen == key) {
            return Err(SoftConfigError::Twice {
                key: key.clone(),
                first: first.clone(),
                second: value.to_owned(),
            });
        }
        self.seen.push((key.to_owned(), value.to_owned()));
        Ok(())
    }

    fn device(&mut self, key: &str, value: &str) -> Result<(), SoftConfigError> {
        let config = &mut self.config;
        match key {
            "capacity" => config.capacity = size(key, value)?,
            "max_namespaces" => {
                config.max_namespaces = Some(number(key, value, 1, crate::config::MAX_NAMESPACES as u64)?);
            }
            "queues" => config.queue_pairs = number(key, value, 1, u16::MAX.into())?,
            "grant" => config.grant = Some(number(key, value, 1, u16::MAX.into())?),
            "entries" => config.max_entries = number(key, value, 2, crate::config::MAX_ENTRIES.into())?,
            "mdts" => config.mdts = number(key, value, 0, crate::config::MAX_MDTS.into())?,
            "sgl" => config.sgl = switch(key, value)?,
            "version" => config.version = crate::version::parse(key, value)?,
            "lacks" => config.optional.lack(key, value)?,
            "wzsl" => config.optional.wzsl = number(key, value, 0, crate::config::MAX_MDTS.into())?,
            "dmrl" => config.optional.dmrl = number(key, value, 0, u8::MAX.into())?,
            "dmrsl" => config.optional.dmrsl = number(key, value, 0, u32::MAX.into())?,
            "dmsl" => config.optional.dmsl = number(key, value, 0, u64::MAX)?,
            "stride" => config.stride = number(key, value, 0, crate::config::MAX_STRIDE.into())?,
            "dbbuf" => config.doorbell_buffer = dbbuf(switch(key, value)?),
            "wrr" => config.weighted_round_robin = switch(key, value)?,
            "wide_cids" => config.wide_cids = switch(key, value)?,
            "cmb" => config.controller_memory = size(key, value)?,
            "pollers" => config.pollers = number(key, value, 1, crate::config::MAX_POLLERS as u64)?,
            "pin" => config.pin = Some(pins(key, value)?),
            "faults" => config.faults = FaultPlan::load(Path::new(value))?,
            "profile" => config.profile = profile(key, value)?,
            "slots" => config.slots = Some(number(key, value, 1, u32::MAX.into())?),
            "time" => config.virtual_time = virtual_time(key, value)?,
            "client" => config.client = client(key, value)?,
            "rings" => config.client_rings = Some(client_rings(key, value)?),
            "cache" => config.volatile_cache = cache(key, value)?,
            "power" => config.power_states = crate::power::parse(value)?,
            "crdt" => config.retry_delays = retry_delays(key, value)?,
            "rtd3e" => config.shutdown_time = time(key, value)?,
            "health" => config.health = health(key, value)?,
            "order" => config.order = order(key, value)?,
            "seed" => config.seed = number(key, value, 0, u64::MAX)?,
            "poison" => config.poison_fetched = switch(key, value)?,
            "serial" => config.serial = value.to_owned(),
            "model" => config.model = value.to_owned(),
            "firmware" => config.firmware = value.to_owned(),
            _ => return Err(SoftConfigError::Unknown { key: key.to_owned(), known: KEYS.to_owned() }),
        }
        Ok(())
    }

    fn finish(mut self) -> SoftConfig {
        let given = self.seen.iter().any(|(key, _)| key == "serial");
        let file = self.config.namespaces.iter().find_map(|namespace| match &namespace.store {
            StoreConfig::File { path, .. } => Some(path),
            StoreConfig::Memory { .. } => None,
        });
        if let Some(path) = file.filter(|_| !given) {
            self.config.serial = serial_of(path);
        }
        self.config.serial_is_own = given || file.is_some();
        self.config
    }
}

fn number<T: TryFrom<u64>>(key: &str, value: &str, low: u64, high: u64) -> Result<T, SoftConfigError> {
    let refused = || SoftConfigError::value(key, value, format!("must be a number from {low} to {high}"));
    let number = u64::from_str(value).map_err(|_| refused())?;
    if number < low || number > high {
        return Err(refused());
    }
    T::try_from(number).map_err(|_| refused())
}

fn switch(key: &str, value: &str) -> Result<bool, SoftConfigError> {
    match value {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" => Ok(false),
        _ => Err(SoftConfigError::value(key, value, "must be on or off")),
    }
}

fn dbbuf(on: bool) -> DoorbellBufferMode {
    if on { DoorbellBufferMode::On } else { DoorbellBufferMode::Off }
}

fn profile(key: &str, value: &str) -> Result<Option<Profile>, SoftConfigError> {
    match value {
        "ideal" => Ok(None),
        "optane" => Ok(Some(Profile::optane())),
        "tlc" => Ok(Some(Profile::tlc())),
        _ if value.ends_with(PROFILE_FILE) => Ok(Some(Profile::load(value)?)),
        _ => {
            Err(SoftConfigError::value(key, value, "must be ideal, optane, tlc or the path of a .toml file"))
        }
    }
}

fn virtual_time(key: &str, value: &str) -> Result<bool, SoftConfigError> {
    match value {
        "virtual" => Ok(true),
        "real" => Ok(false),
        _ => Err(SoftConfigError::value(key, value, "must be virtual or real")),
    }
}

fn client(key: &str, value: &str) -> Result<ClientModel, SoftConfigError> {
    match value {
        "free" => Ok(ClientModel::Free),
        "h200" => Ok(ClientModel::H200),
        _ => Err(SoftConfigError::value(key, value, "must be free or h200")),
    }
}

fn client_rings(key: &str, value: &str) -> Result<ClientRings, SoftConfigError> {
    match value {
        "host" => Ok(ClientRings::Host),
        "hbm" => Ok(ClientRings::Hbm),
        _ => Err(SoftConfigError::value(key, value, "must be host or hbm")),
    }
}

fn cache(key: &str, value: &str) -> Result<bool, SoftConfigError> {
    match value {
        "volatile" => Ok(true),
        "protected" => Ok(false),
        _ => Err(SoftConfigError::value(key, value, "must be volatile or protected (against loss of power)")),
    }
}

fn order(key: &str, value: &str) -> Result<CompletionOrder, SoftConfigError> {
    match value.split_once(':') {
        None if value == "immediate" => Ok(CompletionOrder::Immediate),
        None if value == "submission" => Ok(CompletionOrder::Submission { window: 0 }),
        Some(("submission", window)) => {
            Ok(CompletionOrder::Submission { window: self::window(key, value, window, 0)? })
        }
        Some(("shuffled", window)) => {
            Ok(CompletionOrder::Shuffled { window: self::window(key, value, window, 1)? })
        }
        _ => Err(SoftConfigError::value(
            key,
            value,
            "must be immediate, shuffled:WINDOW, submission or submission:WINDOW",
        )),
    }
}

/// How many completions are held back; a refusal has the whole setting.
fn window(key: &str, value: &str, window: &str, low: u64) -> Result<usize, SoftConfigError> {
    let high = crate::config::MAX_WINDOW as u64;
    number(key, window, low, high).map_err(|_| {
        SoftConfigError::value(key, value, format!("WINDOW must be a number from {low} to {high}"))
    })
}

fn time(key: &str, value: &str) -> Result<Duration, SoftConfigError> {
    let limit = "must be a duration such as 100ms";
    units::duration(value).ok_or_else(|| SoftConfigError::value(key, value, limit))
}

/// Up to three times, in whole units of 100 ms.
fn retry_delays(key: &str, value: &str) -> Result<[u16; 3], SoftConfigError> {
    let limit = "must be up to three multiples of 100ms, such as 100ms+500ms+2s";
    let refused = || SoftConfigError::value(key, value, limit);
    let times: Vec<&str> = value.split('+').collect();
    let mut delays = [0; 3];
    if times.len() > delays.len() {
        return Err(refused());
    }
    for (delay, text) in delays.iter_mut().zip(times) {
        let time = units::duration(text.trim()).ok_or_else(refused)?.as_nanos();
        if !time.is_multiple_of(100_000_000) {
            return Err(refused());
        }
        *delay = u16::try_from(time / 100_000_000).map_err(|_| refused())?;
    }
    Ok(delays)
}

/// The warnings that hold from the start.
fn health(key: &str, value: &str) -> Result<Health, SoftConfigError> {
    let mut health = Health::default();
    for word in value.split('+') {
        match word.trim() {
            "hot" => health.temperature = crate::subsystem::WARNING_TEMPERATURE,
            "spare" => health.spare = health.spare_threshold - 1,
            "degraded" => health.degraded = true,
            "read_only" => health.read_only = true,
            "backup_failed" => health.backup_failed = true,
            other => {
                let limit = "must be some of hot, spare, degraded, read_only and backup_failed, joined by +";
                return Err(SoftConfigError::value(key, other, limit));
            }
        }
    }
    Ok(health)
}

fn pins(key: &str, value: &str) -> Result<Vec<usize>, SoftConfigError> {
    let last = rustix::thread::CpuSet::MAX_CPU as u64 - 1;
    value.split('+').map(|cpu| number(key, cpu, 0, last)).collect()
}

fn size(key: &str, value: &str) -> Result<u64, SoftConfigError> {
    warpbell_base::bytes(value).map_err(|error| match error {
        SizeError::NotASize => {
            SoftConfigError::value(key, value, "must be bytes, for example 4096, 512m, 1g or 500MB")
        }
        SizeError::TooLarge => {
            SoftConfigError::value(key, value, format!("must be at most {} bytes", u64::MAX))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        SoftConfig::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_usual_settings() {
        let text = "size=1g,block=4096,queues=7,grant=9,entries=128,mdts=4,sgl=off,stride=2,pollers=3,pin=0+1,\
                    seed=7,order=shuffled:16,poison=on,serial=S1,model=M,firmware=F";
        let config = SoftConfig::parse(text).unwrap();
        assert_eq!(config.namespaces, [NamespaceConfig::memory(1 << 30, 4096)]);
        assert_eq!((config.queue_pairs, config.grant, config.max_entries), (7, Some(9), 128));
        assert_eq!((config.mdts, config.sgl, config.stride, config.pollers), (4, false, 2, 3));
        assert_eq!((config.pin, config.seed), (Some(vec![0, 1]), 7));
        assert_eq!(config.order, CompletionOrder::Shuffled { window: 16 });
        assert!(config.poison_fetched);
        assert_eq!((config.serial.as_str(), config.model.as_str()), ("S1", "M"));
    }

    #[test]
    fn a_charged_client_needs_virtual_time_and_rings_need_one() {
        let config = SoftConfig::parse("size=1m,rings=hbm,client=h200,time=virtual").unwrap();
        assert_eq!((config.client, config.client_rings), (ClientModel::H200, Some(ClientRings::Hbm)));
        let free = SoftConfig::parse("size=1m,client=free").unwrap();
        assert_eq!((free.client, free.client_rings), (ClientModel::Free, None));
        for time in ["", ",time=real"] {
            assert_eq!(
                error(&format!("size=1m,client=h200{time}")),
                "soft device setting client=h200: needs virtual time, which its accesses take: time=virtual"
            );
        }
        for client in ["", ",client=free"] {
            assert_eq!(
                error(&format!("size=1m,time=virtual,rings=hbm{client}")),
                "soft device setting rings=hbm: needs a client whose accesses take time: client=h200"
            );
        }
        assert_eq!(error("size=1m,client=a100"), "soft device setting client=a100: must be free or h200");
        assert_eq!(error("size=1m,rings=cmb"), "soft device setting rings=cmb: must be host or hbm");
    }

    #[test]
    fn serial_numbers_tell_controllers_apart() {
        let serial = |text: &str| SoftConfig::parse(text).unwrap().serial;
        let memory = || SoftConfig::parse("size=1m").unwrap().numbered().serial;
        assert_ne!(memory(), memory(), "two in memory are two");
        assert_eq!(SoftConfig::parse("size=1m,serial=S1").unwrap().numbered().serial, "S1");
        assert_ne!(serial("file=/a"), serial("file=/b"));
        assert_eq!(serial("file=/a"), serial("size=1m,file=/a"), "a file's is the same each time");
        assert!([memory(), serial("file=/a")].iter().all(|serial| serial.len() <= 20));
    }

    #[test]
    fn several_namespaces_each_with_its_block_size() {
        let config = SoftConfig::parse("block=4096,size=1m,file=a\\,b.img,block=512,writable=on").unwrap();
        assert_eq!(config.namespaces[0], NamespaceConfig::memory(1 << 20, 4096));
        assert_eq!(config.namespaces[1], NamespaceConfig::file("a,b.img", 512, true));
    }

    #[test]
    fn sizes_are_binary_or_decimal() {
        for (text, bytes) in
            [("1k", 1024), ("1kB", 1000), ("2MiB", 2 << 20), ("3GB", 3_000_000_000), ("7", 7)]
        {
            assert_eq!(size("size", text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn errors_name_setting_value_and_limit() {
        assert_eq!(
            error("size=1x"),
            "soft device setting size=1x: must be bytes, for example 4096, 512m, 1g or 500MB"
        );
        assert_eq!(error("size=1g,block=1000"), "soft device setting block=1000: must be 512 or 4096 bytes");
        assert_eq!(
            error("size=1g,queues=0"),
            "soft device setting queues=0: must be a number from 1 to 65535"
        );
        assert_eq!(error("size=1g,stride=5"), "soft device setting stride=5: must be a number from 0 to 4");
        assert_eq!(error("size=1g,sgl=maybe"), "soft device setting sgl=maybe: must be on or off");
        assert_eq!(error("size=1g,seed=1,seed=2"), "soft device setting seed is given twice: 1 and 2");
        assert!(
            error("size=1g,colour=red")
                .starts_with("soft device setting \"colour\" is unknown; known: size,")
        );
        assert_eq!(error("size"), "soft device setting \"size\" has no value: write key=value");
        assert!(error("queues=4").contains("size=BYTES"));
        assert!(error("size=0").contains("size=0: must be 1 to"));
        for large in ["size=99999999999g", "size=99999999999999999999g"] {
            let text = error(large);
            assert_eq!(
                text,
                format!("soft device setting {large}: must be at most 18446744073709551615 bytes")
            );
        }
        assert!(error("size=g").contains("must be bytes"));
        assert!(error("size=1g,serial=123456789012345678901").contains("at most 20 printable"));
        assert!(error("size=1m,writable=on").contains("memory is always writable"));
        assert!(error("size=1m,faults=/nonexistent/plan.toml").contains("/nonexistent/plan.toml"));
        assert!(error("size=1m,order=shuffled:0").contains("from 1 to 65536"));
        assert!(error("size=1m,pin=").contains("pin="));
        assert!(error("file=").contains("must be a path"));
    }

    #[test]
    fn programmatic_configurations_are_checked_too() {
        let config = SoftConfig { max_entries: 1, ..SoftConfig::default() };
        assert_eq!(
            config.validate().unwrap_err().to_string(),
            "soft device setting entries=1: must be 2 to 65536"
        );
        let config = SoftConfig { namespaces: vec![], ..SoftConfig::default() };
        assert!(config.validate().is_err());
    }
}
