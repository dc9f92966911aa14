//! The two pages of Doorbell Buffer Config, as a client has them.

use warpbell_hw::{Device, DmaBuffer};
use warpbell_nvme::Sqe;
use warpbell_nvme::command::dbbuf_config;

use super::Client;

/// The client's two pages.
pub struct Pages {
    pub shadows: DmaBuffer,
    pub events: DmaBuffer,
}

impl Pages {
    pub fn new(client: &Client) -> Pages {
        let page = || DmaBuffer::host(client.device.dma(), 4096).unwrap();
        Pages { shadows: page(), events: page() }
    }

    /// The command that tells the controller of them.
    pub fn config(&self) -> Sqe {
        dbbuf_config(self.shadows.iova().0, self.events.iova().0)
    }
}
