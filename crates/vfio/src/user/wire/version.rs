//! Version negotiation: numbers, and capabilities as JSON.

use serde::{Deserialize, Serialize};

use super::WireError;

/// Most bytes of version data that are looked at.
const MAX_JSON: usize = 64 << 10;
/// What a peer takes at a time that does not say.
const DEFAULT_DATA_BYTES: u64 = 1 << 20;
const DEFAULT_DMA_MAPS: u64 = 65_535;

/// Whether server-to-client commands have a socket of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TwinSocket {
    /// The sender can do it.
    pub supported: bool,
    /// In a reply: which descriptor is that socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fd_index: Option<u64>,
}

/// What the sender of VERSION can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Most file descriptors in one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_msg_fds: Option<u64>,
    /// Most bytes of data in one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_data_xfer_size: Option<u64>,
    /// Most DMA mappings at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_dma_maps: Option<u64>,
    /// Page sizes of DMA mappings, or'ed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pgsizes: Option<u64>,
    /// REGION_WRITE_MULTI is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_multiple: Option<bool>,
    /// Two sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twin_socket: Option<TwinSocket>,
}

impl Capabilities {
    /// Most file descriptors that may be sent to this peer in one message.
    pub fn message_fds(&self) -> usize {
        self.max_msg_fds.unwrap_or(1) as usize
    }

    /// Most bytes of data that may be sent to this peer, or asked of it, in one message.
    pub fn data_bytes(&self) -> u64 {
        self.max_data_xfer_size.unwrap_or(DEFAULT_DATA_BYTES)
    }

    /// Most DMA mappings that this peer holds at a time.
    pub fn dma_maps(&self) -> u64 {
        self.max_dma_maps.unwrap_or(DEFAULT_DMA_MAPS)
    }

    /// The smallest page size of DMA mappings.
    pub fn page_size(&self) -> u64 {
        match self.pgsizes {
            None | Some(0) => 4096,
            Some(sizes) => 1 << sizes.trailing_zeros(),
        }
    }
}

/// The payload of VERSION, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Incompatible if it differs.
    pub major: u16,
    /// In the reply at most what was proposed.
    pub minor: u16,
    /// What the sender can take.
    pub capabilities: Capabilities,
}

#[derive(Serialize, Deserialize, Default)]
struct Data {
    #[serde(default)]
    capabilities: Capabilities,
}

impl Version {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let data = Data { capabilities: self.capabilities };
        let json = serde_json::to_vec(&data).expect("numbers and booleans under fixed names");
        let mut bytes = [self.major.to_ne_bytes(), self.minor.to_ne_bytes()].concat();
        bytes.extend(json);
        bytes.push(0);
        bytes
    }

    /// Reads a payload. Version data may be missing, and capabilities that are not known are left out.
    pub fn decode(payload: &[u8]) -> Result<Version, WireError> {
        let [a, b, c, d, data @ ..] = payload else {
            return Err(WireError::Short { what: "version", len: payload.len(), need: 4 });
        };
        let (major, minor) = (u16::from_ne_bytes([*a, *b]), u16::from_ne_bytes([*c, *d]));
        // Behind the text's end there may be padding.
        let data = data.split(|byte| *byte == 0).next().unwrap_or_default();
        if data.is_empty() {
            return Ok(Version { major, minor, capabilities: Capabilities::default() });
        }
        let refused = |reason: String| {
            let text = String::from_utf8_lossy(&data[..data.len().min(200)]).into_owned();
            WireError::Json { text, reason }
        };
        if data.len() > MAX_JSON {
            return Err(refused(format!("{} bytes; the limit is {MAX_JSON}", data.len())));
        }
        let data: Data = serde_json::from_slice(data).map_err(|error| refused(error.to_string()))?;
        Ok(Version { major, minor, capabilities: data.capabilities })
    }
}
