//! Devices, and what the process as a whole has.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::code::{Code, Result};
use crate::context::{self, Context};
use crate::error::{OptionError, OptionsError};
use crate::gdrdrv;
use crate::log::{self, Kind};
use crate::memory::Memory;
use crate::options::{Options, TARGET, USERS};

/// The driver after cuInit.
pub(crate) struct Driver {
    pub(crate) options: Options,
    pub(crate) memory: Memory,
    devices: Vec<Mutex<Primary>>,
}

/// A device's primary context.
#[derive(Default)]
struct Primary {
    retained: u32,
    context: Option<Arc<Context>>,
}

static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();

/// Of users; none where the driver is a test's.
static OF_USERS: OnceLock<Options> = OnceLock::new();

/// Makes this process's driver that of users: kernels run on the PTX machine, with the options `named`, which go before
/// those of `WARPBELL_PTX`. To be called before cuInit; later calls must name the same options, or none. What a kernel did
/// wrong is told by the text of its error.
///
/// # Errors
///
/// Where the wrong option was given; and which it is, with what it must be.
pub fn for_users(named: &str) -> std::result::Result<(), OptionsError> {
    let known = OF_USERS.get();
    if known.is_some() && named.is_empty() {
        return Ok(());
    }
    let options = Options::of_users(named, &std::env::var(USERS).unwrap_or_default())?;
    if *known.unwrap_or_else(|| OF_USERS.get_or_init(|| options.clone())) != options {
        let wrong = OptionError::Others { named: named.to_owned() };
        return Err(OptionsError { place: TARGET, wrong });
    }
    log::mistakes_alone();
    Ok(())
}

/// Notes a mistake of the caller, and gives the code that the call ends with.
pub(crate) fn misuse(code: Code, text: &str) -> Code {
    log::note(Kind::Violation, text);
    code
}

/// cuInit.
pub(crate) fn start() -> Result<()> {
    DRIVER.get_or_init(new).as_ref().map(|_| ()).map_err(|code| *code)
}

/// The driver, for calls that need one.
pub(crate) fn driver() -> Result<&'static Driver> {
    match DRIVER.get() {
        Some(Ok(driver)) => Ok(driver),
        Some(Err(code)) => Err(*code),
        None => Err(misuse(Code::NOT_INITIALIZED, "before cuInit")),
    }
}

fn new() -> Result<Driver> {
    let options = match OF_USERS.get() {
        Some(options) => options.clone(),
        None => Options::from_environment().map_err(|error| misuse(Code::UNKNOWN, &error.to_string()))?,
    };
    if let Some(path) = &options.log {
        log::to_file(path).map_err(|error| misuse(Code::UNKNOWN, &format!("{}: {error}", path.display())))?;
    }
    log::connections();
    let memory = Memory::new(&options).map_err(|error| misuse(Code::OPERATING_SYSTEM, &error.to_string()))?;
    if options.devices == 0 {
        return Err(Code::NO_DEVICE);
    }
    let devices = (0..options.devices).map(|_| Mutex::default()).collect();
    Ok(Driver { options, memory, devices })
}

/// What is left when the process ends; into the log.
pub(crate) fn end() {
    if let Some(Ok(driver)) = DRIVER.get().filter(|_| OF_USERS.get().is_none()) {
        gdrdrv::leaks().iter().for_each(|leak| log::note(Kind::Leak, leak));
        driver.memory.leaks().iter().for_each(|leak| log::note(Kind::Leak, leak));
        for device in &driver.devices {
            let primary = device.lock();
            let Some(context) = &primary.context else { continue };
            context.leaks().iter().for_each(|leak| log::note(Kind::Leak, leak));
            if context.kernels() > 0 {
                log::note(Kind::Violation, "a kernel still runs as the process ends");
            }
        }
    }
    log::end();
}

impl Driver {
    pub(crate) fn count(&self) -> u32 {
        self.devices.len() as u32
    }

    /// Refuses numbers that are no device's.
    pub(crate) fn device(&self, number: i32) -> Result<u32> {
        let known = u32::try_from(number).ok().filter(|number| *number < self.count());
        known.ok_or_else(|| {
            misuse(Code::INVALID_DEVICE, &format!("device {number}: there are {}", self.count()))
        })
    }

    pub(crate) fn retain(&self, device: u32) -> Arc<Context> {
        let mut primary = self.devices[device as usize].lock();
        primary.retained += 1;
        primary.context.get_or_insert_with(|| Arc::new(Context::new(device))).clone()
    }

    /// The last release ends the context and all that lives in it.
    pub(crate) fn release(&self, device: u32) -> Result<()> {
        let mut primary = self.devices[device as usize].lock();
        if primary.retained == 0 {
            return Err(misuse(Code::INVALID_CONTEXT, "the primary context is not retained"));
        }
        primary.retained -= 1;
        if primary.retained > 0 {
            return Ok(());
        }
        let Some(context) = primary.context.take() else { return Ok(()) };
        context.end();
        let mut left = self.memory.free_all(device);
        left.extend(context.leaks());
        left.iter().for_each(|object| log::note(Kind::Leak, &format!("with its context: {object}")));
        Ok(())
    }

    /// The context with that handle, if it lives.
    pub(crate) fn context(&self, handle: u64) -> Option<Arc<Context>> {
        let contexts = self.devices.iter().filter_map(|device| device.lock().context.clone());
        contexts.into_iter().find(|context| context.handle() == handle)
    }

    /// The context of this thread, if it works.
    pub(crate) fn current(&self) -> Result<Arc<Context>> {
        let Some(handle) = context::current() else {
            return Err(misuse(Code::INVALID_CONTEXT, "no context is current on this thread"));
        };
        let context = self.context(handle);
        let context =
            context.ok_or_else(|| misuse(Code::CONTEXT_IS_DESTROYED, "the current context has ended"))?;
        context.check()?;
        Ok(context)
    }
}
