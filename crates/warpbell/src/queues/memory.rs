//! Takes memory for rings and data from where an SSD's user wants it.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use warpbell_driver::{Controller, ControllerState, RingMemory};
use warpbell_gpu::routes::SpaceKind;
use warpbell_gpu::{DeviceMemory, Gpu};
use warpbell_hw::{BASE_PAGE, CqRing, DmaAccess, DmaBuffer, DmaError, Registrations, SqRing, Window};

use crate::buffer::Data;
use crate::device_data::{DeviceData, DeviceRoute};
use crate::queues::device_rings::DeviceRings;
use crate::queues::mapping::ReservedRing;
use crate::{
    Buffer, DataPath, DataPlacement, DataPointerKind, Delivery, Domains, Error, ForeignMemory, OpenOptions,
    OpenTarget, OrderDomain, OrderPolicy, Reaper, RingPlace, RingPlacement,
};

/// Where rings and data of one SSD come from, and how commands describe data.
#[derive(Clone)]
pub(crate) struct Memory {
    controller: Arc<Controller>,
    rings: RingPlacement,
    data: DataPlacement,
    data_pointer: DataPointerKind,
    /// Foreign memory, as this SSD has it mapped.
    mapped: Vec<(Arc<ForeignMemory>, Arc<DmaBuffer>)>,
    /// Memory of the user's, as this SSD has it mapped.
    registrations: Arc<Registrations>,
    /// The same in a GPU's memory.
    device_registrations: Arc<Mutex<Vec<Weak<DeviceData>>>>,
    /// What kind of space the SSD has its memory in.
    space: SpaceKind,
    /// Whether something stands between the SSD and memory that is not mapped for it.
    translated: bool,
    /// The way of data to a GPU's memory.
    device_route: Option<DeviceRoute>,
    /// Rings in a GPU's memory; all of them in one GPU's.
    device_rings: Option<Arc<DeviceRings>>,
}

impl Memory {
    /// Maps what is foreign, once, and tries the way to a GPU's memory.
    pub(crate) fn new(
        controller: &Arc<Controller>,
        options: &OpenOptions,
        (space, translated): (SpaceKind, bool),
    ) -> Result<Memory, Error> {
        let by_sgl = controller.supports_sgl() && !options.prp_only;
        let data_pointer = if by_sgl { DataPointerKind::Sgl } else { DataPointerKind::Prp };
        let (controller, rings, data) = (controller.clone(), options.rings.clone(), options.data.clone());
        let registrations = Arc::new(Registrations::new(controller.device().dma()));
        let mapped = Vec::new();
        let (device_route, device_rings) = (None, None);
        let mut memory = Memory {
            controller,
            rings,
            data,
            data_pointer,
            mapped,
            registrations,
            device_registrations: Arc::default(),
            space,
            translated,
            device_route,
            device_rings,
        };
        for place in [memory.rings.sq(), memory.rings.cq()] {
            match place {
                RingPlace::Foreign(foreign) => memory.map(&foreign)?,
                RingPlace::Hbm(gpu) => memory.open_device_rings(&gpu)?,
                RingPlace::Host | RingPlace::Cmb => {}
            }
        }
        if let DataPlacement::Foreign(foreign) = memory.data.clone() {
            memory.map(&foreign)?;
        }
        if let DataPlacement::Hbm(gpu) = memory.data.clone() {
            if let Some(rings) = &memory.device_rings {
                rings.check_same(&gpu)?;
            }
            memory.device_route = Some(memory.device_data(&gpu, BASE_PAGE)?.route());
        }
        memory.check_order()?;
        Ok(memory)
    }

    fn map(&mut self, foreign: &Arc<ForeignMemory>) -> Result<(), Error> {
        if self.mapping(foreign).is_none() {
            let space = self.controller.device().dma();
            let mapping = DmaBuffer::map(space, foreign.window().clone(), DmaAccess::READ_WRITE);
            let mapping =
                mapping.map_err(|source| Error::Foreign { memory: foreign.name().to_owned(), source })?;
            self.mapped.push((foreign.clone(), Arc::new(mapping)));
        }
        Ok(())
    }

    /// Finds the way to rings in a GPU's memory.
    fn open_device_rings(&mut self, gpu: &Arc<Gpu>) -> Result<(), Error> {
        if let Some(rings) = &self.device_rings {
            return rings.check_same(gpu);
        }
        let device = self.controller.device().as_ref();
        self.device_rings = Some(Arc::new(DeviceRings::new(gpu, device, self.space)?));
        Ok(())
    }

    fn mapping(&self, foreign: &Arc<ForeignMemory>) -> Option<&Arc<DmaBuffer>> {
        self.mapped.iter().find(|(memory, _)| Arc::ptr_eq(memory, foreign)).map(|(_, mapping)| mapping)
    }

    /// A part of foreign memory, zeroed by words.
    fn part(&self, foreign: &Arc<ForeignMemory>, len: usize) -> Result<DmaBuffer, Error> {
        let part = foreign.take(len)?;
        part.window().fill(0, part.window().len(), 0)?;
        let mapping = self.mapping(foreign).expect("mapped when the memory was chosen");
        Ok(DmaBuffer::part(mapping, part)?)
    }

    /// Memory for both rings of a queue of the host's.
    pub(crate) fn host_rings(&self, entries: u32) -> Result<(RingMemory, RingMemory), Error> {
        let (places, entries) = (self.rings.of_the_host(), entries as usize);
        let sq = self.ring(places.sq(), entries * SqRing::SLOT)?;
        let cq = self.ring(places.cq(), entries * CqRing::SLOT)?;
        Ok((sq.memory, cq.memory))
    }

    /// Memory for a ring of `bytes`, and where kernels find it if that is not where the host does.
    fn ring(&self, place: RingPlace, bytes: usize) -> Result<PlacedRing, Error> {
        let memory = match place {
            RingPlace::Host => RingMemory::Host,
            RingPlace::Cmb => RingMemory::Controller,
            RingPlace::Foreign(foreign) => RingMemory::Buffer(self.part(&foreign, bytes)?),
            RingPlace::Hbm(_) => {
                let rings = self.device_rings.as_ref().expect("opened when the memory was chosen");
                let ring = rings.take(self.controller.device().as_ref(), self.space, bytes)?;
                let address = Some(ring.address());
                return Ok(PlacedRing { memory: RingMemory::Remote(ring), address });
            }
        };
        Ok(PlacedRing { memory, address: None })
    }

    /// Memory for both rings of one queue pair of kernels after another. What stands in for a submission ring in
    /// controller memory lies in host memory: there is too little of the other for rings that may never be needed.
    pub(crate) fn reserve_rings(
        &self,
        target: &OpenTarget,
        entries: u32,
        spare: bool,
    ) -> Result<(ReservedRing, ReservedRing), Error> {
        if let Some(rings) = &self.device_rings {
            rings.check(target)?;
        }
        let sq = match self.rings.sq() {
            RingPlace::Cmb if spare => RingPlace::Host,
            place => place,
        };
        let (sq, cq) = (
            self.ring(sq, entries as usize * SqRing::SLOT)?,
            self.ring(self.rings.cq(), entries as usize * CqRing::SLOT)?,
        );
        let controller = &self.controller;
        Ok((
            ReservedRing { memory: controller.reserve_sq(sq.memory, entries)?, address: sq.address },
            ReservedRing { memory: controller.reserve_cq(cq.memory, entries)?, address: cq.address },
        ))
    }

    /// Whether the controller surely accesses no memory any more, so that what it knew may be freed. A function that
    /// does not answer may still write where nothing stands between it and memory: no translation, or one that stays
    /// for what else lies in the same mapping.
    pub(crate) fn is_let_go(&self) -> bool {
        match self.controller.state() {
            ControllerState::Disabled => true,
            ControllerState::Gone => self.translated && !self.controller.device().dma().coalesces(),
            _ => false,
        }
    }

    /// At least `bytes` zeroed bytes for data that the host reaches too.
    pub(crate) fn buffer(&self, bytes: usize) -> Result<Buffer, Error> {
        let data = match &self.data {
            DataPlacement::Host | DataPlacement::Hbm(_) => self.controller.arena().buffer(bytes)?,
            DataPlacement::Foreign(foreign) => self.part(foreign, bytes)?,
        };
        self.described(Data::own(data))
    }

    /// At least `bytes` zeroed bytes for data of kernels on `target`.
    pub(crate) fn kernel_buffer(&self, target: &OpenTarget, bytes: usize) -> Result<Buffer, Error> {
        let DataPlacement::Hbm(gpu) = &self.data else { return self.buffer(bytes) };
        self.reached_by(target)?;
        let data = self.device_data(gpu, bytes)?;
        // What keeps data before its completion was settled for that way.
        if self.device_route != Some(data.route()) {
            return Err(Error::Argument {
                object: "buffer in",
                value: self.data.name(),
                limit: format!("{bytes} bytes are reached by another way than before: {}", data.route()),
            });
        }
        let memory = data.memory().clone();
        self.described(Data::Device(Arc::new(data), memory))
    }

    /// Data in a GPU's memory is for kernels of that GPU.
    pub(crate) fn reached_by(&self, target: &OpenTarget) -> Result<(), Error> {
        let DataPlacement::Hbm(gpu) = &self.data else { return Ok(()) };
        if target.gpu().is_some_and(|own| own.info().uuid == gpu.info().uuid) {
            return Ok(());
        }
        Err(Error::Argument {
            object: "target",
            value: target.target().to_string(),
            limit: format!("data lies in {}, which only kernels of that GPU reach", self.data.name()),
        })
    }

    fn device_data(&self, gpu: &Arc<Gpu>, bytes: usize) -> Result<DeviceData, Error> {
        DeviceData::new(gpu, self.controller.device().as_ref(), self.space, bytes, "data")
    }

    /// Memory of the user's, by the mapping that there is or by a new one.
    pub(crate) fn register(&self, window: Window, access: DmaAccess) -> Result<Buffer, Error> {
        if !matches!(self.data, DataPlacement::Host) || !window.memory().is_ordinary() {
            // Completions and data in one memory, or not: that is settled when the SSD is opened.
            return Err(Error::Argument {
                object: "memory to register, with data in",
                value: self.data.name(),
                limit: "only host memory is registered, on an SSD whose data lies in host memory".to_owned(),
            });
        }
        let (offset, len, page_size) =
            (window.offset_in_memory() as u64, window.len() as u64, BASE_PAGE as u64);
        if !offset.is_multiple_of(page_size) {
            return Err(DmaError::Alignment { offset, len, page_size }.into());
        }
        self.described(Data::Registered(self.registrations.register(window, access)?))
    }

    /// Memory of a GPU's that the user has, by the mapping that there is or by a new one.
    pub(crate) fn register_device(&self, memory: &DeviceMemory) -> Result<Buffer, Error> {
        let refused = |limit: String| Error::Argument {
            object: "memory to register, with data in",
            value: self.data.name(),
            limit,
        };
        let own = |gpu: &Arc<Gpu>| gpu.info().uuid == memory.gpu().info().uuid;
        // Completions and data in one memory, or not: that is settled when the SSD is opened.
        if !matches!(&self.data, DataPlacement::Hbm(gpu) if own(gpu)) {
            let gpu = memory.gpu().info().target();
            return Err(refused(format!(
                "memory of {gpu} is registered on an SSD whose data lies in hbm of {gpu}"
            )));
        }
        let mut known = self.device_registrations.lock();
        known.retain(|data| data.strong_count() > 0);
        let same = |data: &Arc<DeviceData>| {
            (data.memory().address(), data.memory().len()) == (memory.address(), memory.len())
        };
        if let Some(data) = known.iter().filter_map(Weak::upgrade).find(same) {
            return self.described(Data::Device(data, memory.clone()));
        }
        let device = self.controller.device().as_ref();
        let data = Arc::new(DeviceData::of(memory.clone(), device, self.space, "data")?);
        if self.device_route != Some(data.route()) {
            return Err(refused(format!("this memory is reached by another way: {}", data.route())));
        }
        known.push(Arc::downgrade(&data));
        self.described(Data::Device(data, memory.clone()))
    }

    fn described(&self, data: Data) -> Result<Buffer, Error> {
        self.controller.check_reach("a data buffer", data.iova(), data.len() as u64)?;
        Buffer::new(self.controller.arena(), data, self.data_pointer)
    }

    pub(crate) fn controller(&self) -> &Arc<Controller> {
        &self.controller
    }

    /// The way of completions to a GPU's memory.
    fn completion_route(&self) -> Option<DeviceRoute> {
        match (self.rings.cq(), &self.device_rings) {
            (RingPlace::Hbm(_), Some(rings)) => Some(rings.route()),
            _ => None,
        }
    }

    /// Whether a controller in this process copies one of both, which keeps data before completions.
    fn delivery(&self) -> Delivery {
        let copied = |route: Option<DeviceRoute>| route == Some(DeviceRoute::Copied);
        let foreign = matches!(self.data, DataPlacement::Foreign(_));
        if copied(self.device_route) || (copied(self.completion_route()) && !foreign) {
            Delivery::Copied
        } else {
            Delivery::Peer
        }
    }

    /// What keeps data before its completion, for who reaps; `registers`: whether it can read a register.
    pub(crate) fn order(&self, reaper: Reaper, registers: bool) -> OrderPolicy {
        let (completions, data) = self.order_domains();
        OrderPolicy::of(completions, data, self.delivery(), reaper, registers)
    }

    /// Where completions and data lie. Two ways to one memory keep no order between each other: it counts as two.
    fn order_domains(&self) -> (OrderDomain, OrderDomain) {
        match OrderDomain::pair(&self.rings, &self.data) {
            (OrderDomain::Gpu, data @ OrderDomain::Gpu) if self.completion_route() != self.device_route => {
                (OrderDomain::Bar(0), data)
            }
            both => both,
        }
    }

    /// Refuses what no kernel of the GPU could use in order.
    fn check_order(&self) -> Result<(), Error> {
        let gpu = match (&self.data, self.rings.cq()) {
            (DataPlacement::Hbm(gpu), _) => gpu.clone(),
            (_, RingPlace::Hbm(gpu)) => gpu,
            _ => return Ok(()),
        };
        let registers = self.controller.device().register_page().is_some();
        self.order(Reaper::Gpu(gpu.write_ordering()), registers).require(&self.rings, &self.data)?;
        Ok(())
    }

    /// A word to read for a flush by the host; `None` where data lies in its own memory.
    pub(crate) fn flush_word(&self) -> Option<Window> {
        match &self.data {
            DataPlacement::Foreign(foreign) => Some(foreign.window().clone()),
            DataPlacement::Host | DataPlacement::Hbm(_) => None,
        }
    }

    pub(crate) fn data(&self) -> &DataPlacement {
        &self.data
    }

    pub(crate) fn ring_placement(&self) -> &RingPlacement {
        &self.rings
    }

    pub(crate) fn data_pointer(&self) -> DataPointerKind {
        self.data_pointer
    }

    pub(crate) fn domains(&self) -> Domains {
        let (completions, data) = self.order_domains();
        match self.delivery() {
            _ if completions == data => Domains::One,
            Delivery::Copied => Domains::Copied,
            Delivery::Peer => Domains::Two,
        }
    }

    /// The same for the host's own queues, which have neither rings nor data in a GPU's memory.
    pub(crate) fn host_domains(&self) -> Domains {
        let data = match &self.data {
            DataPlacement::Hbm(_) => &DataPlacement::Host,
            data => data,
        };
        Domains::of(&self.rings.of_the_host(), data)
    }

    /// Where rings lie, and what that means.
    fn rings_name(&self) -> String {
        let Some(rings) = &self.device_rings else { return self.rings.name() };
        let how = format!("{}; queues of the host: in host memory", rings.route());
        let (sq, cq) = (self.rings.sq(), self.rings.cq());
        if sq.name() == cq.name() {
            return format!("{} ({how})", sq.name());
        }
        let named = |place: &RingPlace, kind: &str| match place {
            RingPlace::Hbm(_) => format!("{} ({kind}, {how})", place.name()),
            _ => format!("{} ({kind})", place.name()),
        };
        format!("{}, {}", named(&sq, "SQ"), named(&cq, "CQ"))
    }

    pub(crate) fn path(&self) -> DataPath {
        DataPath {
            rings: self.rings_name(),
            data: match &self.device_route {
                Some(route) => format!("{} ({route})", self.data.name()),
                None => self.data.name(),
            },
            domains: self.domains(),
            doorbells: self.controller.device().doorbells().path(),
            polled: self.controller.device().doorbells().window().memory().is_ordinary(),
            refused: None,
            shadows: self.controller.uses_doorbell_buffer(),
            data_pointer: self.data_pointer,
            route: None,
        }
    }
}

/// Memory for a ring, not zeroed yet.
struct PlacedRing {
    memory: RingMemory,
    /// Where kernels find it, in a GPU's memory.
    address: Option<u64>,
}
