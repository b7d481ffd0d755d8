//! How a communicator uses the network.

use super::settings::{Setting, Value};

/// How a communicator uses the network between hosts. NCCL chooses what is left unset.
///
/// ```
/// use typed_nccl::{CommConfig, Network};
///
/// // Small control messages go before bulk data, by the fabric's configuration.
/// let urgent = CommConfig::builder().network(Network::any().traffic_class(5)).build();
/// let plugin = CommConfig::builder().network(Network::named("IB").channels_per_peer(4)).build();
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[must_use = "it is an option of a configuration"]
pub struct Network {
    name: Option<String>,
    traffic_class: Option<u32>,
    channels_per_peer: Option<u32>,
    collnet: Option<bool>,
}

/// NCCL's limit of channels.
const MOST_CHANNELS: u32 = 64;

impl Network {
    /// NCCL's choice.
    pub const fn any() -> Self {
        Self { name: None, traffic_class: None, channels_per_peer: None, collnet: None }
    }

    /// Uses the network plugin of this name: `IB`, `Socket`, or an external one. All ranks choose
    /// the same. NCCL: `netName`, 2.17.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::any() }
    }

    /// The class of its packets: InfiniBand's service level or RoCE's type of service. Each rank
    /// may choose its own. NCCL: `trafficClass`, 2.26; `NCCL_IB_TC` and `NCCL_IB_SL` override it.
    pub fn traffic_class(self, class: u32) -> Self {
        Self { traffic_class: Some(class), ..self }
    }

    /// Channels to each peer for transfers, 1 to 64; NCCL rounds up to a power of two. All ranks
    /// choose the same. NCCL: `nChannelsPerNetPeer`, 2.28.
    pub fn channels_per_peer(self, channels: u32) -> Self {
        Self { channels_per_peer: Some(channels), ..self }
    }

    /// Whether switches reduce in the network (SHARP). All ranks choose the same. NCCL:
    /// `collnetEnable`, 2.27.
    pub fn collnet(self, on: bool) -> Self {
        Self { collnet: Some(on), ..self }
    }

    pub(super) fn fault(&self) -> Option<String> {
        if let Some(name) = self.name.as_ref().filter(|name| name.is_empty() || name.contains('\0'))
        {
            return Some(format!("`Network::named({name:?})` is no name of a plugin"));
        }
        if let Some(class) = self.traffic_class.filter(|class| i32::try_from(*class).is_err()) {
            return Some(format!("`Network::traffic_class({class})` is more than {}", i32::MAX));
        }
        let channels = self.channels_per_peer.filter(|n| !(1..=MOST_CHANNELS).contains(n))?;
        Some(format!(
            "`Network::channels_per_peer({channels})` is not within 1 and {MOST_CHANNELS}"
        ))
    }

    pub(super) fn settings(&self) -> [Option<Setting>; 4] {
        let name = self.name.clone().map(Value::Text);
        let class = self.traffic_class.map(|class| Value::Number(class.cast_signed()));
        let channels = self.channels_per_peer.map(u32::cast_signed);
        [
            name.map(|name| Setting::alike("Network::named", "netName", name)),
            class.map(|class| Setting::own("Network::traffic_class", "trafficClass", class)),
            Setting::number("Network::channels_per_peer", "nChannelsPerNetPeer", channels),
            Setting::number("Network::collnet", "collnetEnable", self.collnet.map(i32::from)),
        ]
    }
}
