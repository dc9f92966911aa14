//! Identify: what the controller is.

use warpbell_nvme::command;
use warpbell_nvme::identify::{Cns, IDENTIFY_SIZE, IdentifyController};
use zerocopy::{FromBytes, IntoBytes};

use crate::DriverError;
use crate::core::Core;
use crate::data::Data;

impl Core {
    pub(crate) fn identify_controller(&self) -> Result<Box<IdentifyController>, DriverError> {
        let identify: Box<IdentifyController> = self.identify(Cns::CONTROLLER, 0)?;
        let unsupported = |what, value, need| {
            let device = self.name();
            Err(DriverError::Unsupported { device, what, value, need })
        };
        if identify.sqes.min() > 6 || identify.sqes.max() < 6 {
            let value = u64::from(identify.sqes.into_bits());
            return unsupported("the submission entry size (SQES)", value, "64 bytes (6) in its range");
        }
        if identify.cqes.min() > 4 || identify.cqes.max() < 4 {
            let value = u64::from(identify.cqes.into_bits());
            return unsupported("the completion entry size (CQES)", value, "16 bytes (4) in its range");
        }
        Ok(identify)
    }

    /// One of the 4096-byte structures.
    pub(crate) fn identify<T: FromBytes + IntoBytes>(
        &self,
        cns: Cns,
        nsid: u32,
    ) -> Result<Box<T>, DriverError> {
        const { assert!(size_of::<T>() == IDENTIFY_SIZE) };
        let mut structure = Box::new(T::new_zeroed());
        self.execute(command::identify(cns, nsid), Data::In(structure.as_mut_bytes()))?;
        Ok(structure)
    }
}
