//! A controller in another process, as a device.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_hw::{
    Clock, Device, DeviceInfo, DeviceKind, DmaSpace, Doorbells, Interrupts, MonotonicClock, PciId, Registers,
    Reset, ResetError, ResetKind, Window,
};
use warpbell_nvme::register::{Cap, offset};
use zerocopy::IntoBytes;

use super::config::{ConfigSpace, is_present};
use super::connection::Connection;
use super::dma::UserDma;
use super::doorbells::{self, UserDoorbells};
use super::error::{Object, UserError};
use super::interrupts::UserInterrupts;
use super::regions::Region;
use super::registers::UserRegisters;
use super::wire::{Command, DeviceFlags, DeviceInfo as WireDeviceInfo, region_index};
use crate::cmb;

/// Regions that are asked for at most: those of a PCI function.
const MOST_REGIONS: u32 = region_index::COUNT;
/// Doorbells of all queue identifiers, in units of the stride.
const ALL_DOORBELLS: u64 = 2 * 65536;
/// The longest shadow page. With a stride above 128 bytes it has no room for the highest of all queue identifiers.
const MOST_SHADOW: u64 = 16 << 20;

warpbell_base::options! {
    /// How to reach a controller behind a socket.
    #[derive(Clone, Debug)]
    pub struct UserOptions {
        /// How long the server may take for each reply.
        pub timeout: Duration,
        /// Doorbells by message even where the page could be mapped.
        pub message_doorbells: bool,
    }
}

impl Default for UserOptions {
    /// Five seconds; mapped doorbells where the server has them.
    fn default() -> UserOptions {
        UserOptions { timeout: Duration::from_secs(5), message_doorbells: false }
    }
}

/// An NVMe controller that another process serves on a vfio-user socket.
pub struct UserDevice {
    connection: Arc<Connection>,
    flags: DeviceFlags,
    regions: Vec<Region>,
    has_config: bool,
    pci_id: Option<PciId>,
    registers: UserRegisters,
    doorbells: UserDoorbells,
    /// Why doorbells go by message, if they do.
    no_page: Option<String>,
    dma: Arc<UserDma>,
    interrupts: UserInterrupts,
    clock: MonotonicClock,
    /// The controller memory buffer, once it was mapped.
    controller_memory: Mutex<Option<Window>>,
}

impl std::fmt::Debug for UserDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserDevice").field("info", &self.info()).finish_non_exhaustive()
    }
}

impl UserDevice {
    /// Connects to a server, negotiates, and sets the function up as firmware would.
    pub fn connect(socket: &Path, options: &UserOptions) -> Result<Arc<UserDevice>, UserError> {
        UserDevice::over(Connection::open(socket, options)?, options)
    }

    /// The same over a socket that is connected already; messages call it by `name`.
    pub fn connected(
        stream: UnixStream,
        name: &Path,
        options: &UserOptions,
    ) -> Result<Arc<UserDevice>, UserError> {
        UserDevice::over(Connection::over(stream, name, options)?, options)
    }

    fn over(connection: Connection, options: &UserOptions) -> Result<Arc<UserDevice>, UserError> {
        let connection = Arc::new(connection);
        let info = device_info(&connection)?;
        let count = info.regions.min(MOST_REGIONS);
        let regions: Vec<Region> =
            (0..count).map(|index| Region::query(&connection, index)).collect::<Result<_, _>>()?;
        let bar = regions.first().filter(|bar| bar.size > doorbells::FIRST);
        let Some(bar) = bar else {
            let value = format!("{} bytes", regions.first().map_or(0, |bar| bar.size));
            return Err(unsupported(&connection, "BAR 0", value, "longer than 4096 bytes"));
        };
        let has_config = is_present(&regions);
        let config = ConfigSpace(&connection);
        let (pci_id, msix) = if has_config {
            config.enable(&regions)?;
            (Some(config.pci_id()?), config.msix()?)
        } else {
            (None, None)
        };
        let stride = stride(&connection)?;
        let (doorbells, no_page) = doorbells_of(&connection, bar, stride, options)?;
        let registers = UserRegisters::new(connection.clone(), doorbells.proxy());
        let interrupts = UserInterrupts::query(connection.clone(), msix)?;
        Ok(Arc::new(UserDevice {
            dma: Arc::new(UserDma::new(connection.clone())),
            flags: info.flags,
            regions,
            has_config,
            pci_id,
            registers,
            doorbells,
            no_page,
            interrupts,
            clock: MonotonicClock::new(),
            controller_memory: Mutex::default(),
            connection,
        }))
    }

    /// Why doorbells go by message and not through a mapped page; `None` if they are mapped.
    pub fn why_forwarded(&self) -> Option<&str> {
        self.no_page.as_deref()
    }

    /// Why the connection has ended; `None` while it has not.
    pub fn ended(&self) -> Option<String> {
        self.connection.ended()
    }

    fn reset_function(&self) -> Result<(), UserError> {
        self.connection.request(Command::DeviceReset, Object::Device, &[], &[])?;
        self.doorbells.clear();
        // A server that models a whole function has forgotten all of this.
        if self.has_config {
            ConfigSpace(&self.connection).enable(&self.regions)?;
        }
        self.interrupts.restore()
    }

    fn map_controller_memory(&self) -> Option<Window> {
        let refused =
            |reason: &String| tracing::warn!(device = %self.info().name, reason, "no controller memory");
        let place = cmb::place(&self.registers).map_err(|(_, reason)| reason).inspect_err(refused).ok()??;
        let region = self.regions.get(usize::from(place.bar))?;
        let mapped = region.map_from(place.start).map_err(|error| error.to_string());
        let window = mapped.inspect_err(refused).ok()?;
        let len = usize::try_from(place.len).unwrap_or(usize::MAX).min(window.len());
        window.slice(0, len).ok()
    }
}

/// The doorbells, and why they go by message if they do.
fn doorbells_of(
    connection: &Arc<Connection>,
    bar: &Region,
    stride: u8,
    options: &UserOptions,
) -> Result<(UserDoorbells, Option<String>), UserError> {
    let page = match options.message_doorbells {
        true => Err("messages were asked for".to_owned()),
        false => bar.map_from(doorbells::FIRST).map_err(|error| error.to_string()),
    };
    let reason = match page {
        Ok(page) => return Ok((UserDoorbells::mapped(page, stride), None)),
        Err(reason) => reason,
    };
    tracing::info!(socket = %connection.name().display(), reason, "doorbells go by message");
    let bytes = (bar.size - doorbells::FIRST).min(ALL_DOORBELLS * (4 << stride)).min(MOST_SHADOW);
    let made = UserDoorbells::forwarded(connection.clone(), bytes as usize, stride);
    Ok((made.map_err(|source| connection.system("make doorbells", source))?, Some(reason)))
}

fn device_info(connection: &Connection) -> Result<WireDeviceInfo, UserError> {
    let (command, object) = (Command::DeviceGetInfo, Object::Device);
    let request = WireDeviceInfo { argsz: size_of::<WireDeviceInfo>() as u32, ..WireDeviceInfo::default() };
    let reply = connection.request(command, object, &[request.as_bytes()], &[])?;
    let (info, _) = connection.fixed::<WireDeviceInfo>(command, object, &reply.payload)?;
    if !info.flags.contains(DeviceFlags::PCI) {
        let value = format!("{:#x}", info.flags.bits());
        return Err(unsupported(connection, "the device's flags", value, "those of a PCI function (bit 1)"));
    }
    Ok(info)
}

fn stride(connection: &Connection) -> Result<u8, UserError> {
    let cap = connection.read(region_index::BAR0, offset::CAP.into()).map(u64::from_le_bytes)?;
    if cap == 0 || cap == u64::MAX {
        let value = format!("{cap:#x}");
        return Err(unsupported(connection, "CAP", value, "that of an NVMe controller"));
    }
    Ok(Cap::from_bits(cap).dstrd())
}

fn unsupported(connection: &Connection, what: &'static str, value: String, need: &str) -> UserError {
    UserError::Unsupported { socket: connection.name().to_owned(), what, value, need: need.to_owned() }
}

impl Device for UserDevice {
    fn info(&self) -> DeviceInfo {
        let name = format!("vfio-user:{}", self.connection.name().display());
        DeviceInfo { name, kind: DeviceKind::VfioUser }
    }

    fn registers(&self) -> &dyn Registers {
        &self.registers
    }

    fn doorbells(&self) -> &dyn Doorbells {
        &self.doorbells
    }

    fn dma(&self) -> Arc<dyn DmaSpace> {
        self.dma.clone()
    }

    fn interrupts(&self) -> &dyn Interrupts {
        &self.interrupts
    }

    fn reset(&self) -> &dyn Reset {
        self
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn pci_id(&self) -> Option<PciId> {
        self.pci_id
    }

    fn controller_memory(&self) -> Option<Window> {
        let mut mapped = self.controller_memory.lock();
        if mapped.is_none() {
            *mapped = self.map_controller_memory();
        }
        mapped.clone()
    }
}

impl Reset for UserDevice {
    fn reset(&self, kind: ResetKind) -> Result<(), ResetError> {
        if !self.flags.contains(DeviceFlags::RESET) {
            let reason = "the server has no DEVICE_RESET; only CC.EN=0 resets the controller".to_owned();
            return Err(ResetError::Unavailable { kind, reason });
        }
        let reset = self.reset_function();
        reset.map_err(|error| ResetError::System { kind, source: std::io::Error::other(error) })
    }
}

#[cfg(test)]
mod tests;
