//! Options of a communicator.

mod call;
mod choices;
mod ctas;
#[cfg(feature = "cuda")]
mod launch_event;
mod memory;
mod network;
mod properties;
mod settings;
mod transfers;

use std::time::Duration;

use typed_builder::TypedBuilder;

pub use call::{Algorithm, Algorithms, AsConfigured, CallConfig, PerCall, Protocol, WithoutConfig};
pub use choices::{CaptureOrder, CountedTransfers, GraphUse, LaunchOrder, Multicast};
pub use ctas::{CtaPolicy, Ctas};
#[cfg(feature = "cuda")]
pub use launch_event::LaunchEvent;
#[cfg(feature = "cuda")]
pub(crate) use launch_event::RawEvent;
pub use memory::MemoryStats;
pub use network::Network;
pub use properties::{GinConnections, GinType, Properties};
pub(crate) use settings::{Alike, Setting, Value};
pub use transfers::Transfers;

use crate::backend::Slot;
use crate::error::{Error, InitFailed};
use crate::health::{Change, Stragglers, Watch};
use crate::wait::DEFAULT_DEADLINE;
use crate::{Rank, Result};

/// NCCL's field for `early_signals`. Older releases get the same effect in another way.
pub(crate) const EARLY_SIGNALS: &str = "rmaEagerInit";

/// Options of a communicator; each has a default.
///
/// Those that tune NCCL (`ctas` to `launch_order`) are checked on every device and have no effect
/// on the host. A variable of NCCL's environment overrides an option that tunes (`NCCL_DEBUG=INFO`
/// makes NCCL log it), and is refused where it would break what another option promises: the guide
/// has the table, in its chapter on the environment. Setting an option that the loaded NCCL has no
/// field for returns [`Error::Unsupported`](crate::Error::Unsupported).
///
/// Two of NCCL's own fields are missing: `blocking`, because connecting waits within a deadline or
/// not at all ([`start`](crate::Seat::start)), and `commName`, which is the label.
///
/// ```
/// use std::time::Duration;
/// use typed_nccl::CommConfig;
///
/// let config = CommConfig::builder().deadline(Duration::from_secs(30)).build();
/// # assert_eq!(config.deadline, Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, TypedBuilder)]
#[non_exhaustive]
pub struct CommConfig {
    /// The longest a host wait that depends on other ranks may take, `connect` included. When it
    /// passes, the communicator is poisoned with [`Error::Timeout`](crate::Error::Timeout). 10
    /// minutes unless set.
    #[builder(default = DEFAULT_DEADLINE)]
    pub deadline: Duration,
    /// The number of contexts of one-sided operations, which are ordered within one context. All
    /// ranks choose the same. 1 unless set; 0 disables one-sided operations. NCCL: `numRmaCtx`,
    /// 2.29 for 0, 2.31 for more than 1.
    #[builder(default = 1)]
    pub contexts: u32,
    /// The number of signals per context. All ranks choose the same. 1 unless set; contexts x
    /// signals x ranks x ranks may be at most 2^26. NCCL: `numRmaSig`, 2.31 for more than 1.
    #[builder(default = 1)]
    pub signals: u32,
    /// Whether signals are set up when the communicator connects instead of with its first
    /// symmetric window, so that [`signal`](crate::Communicator::signal) and `wait_signal` work
    /// without a window. All ranks choose the same. `false` unless set. NCCL: `rmaEagerInit`, 2.31;
    /// with 2.29 and 2.30 connecting creates the first signal.
    #[builder(default = false)]
    pub early_signals: bool,
    /// Whether children that borrow this communicator (`split_shared`) share its resources: network
    /// connections, proxy threads, device memory. All ranks choose the same. `false` unless set.
    /// NCCL: the parent's `splitShare`, 2.18.
    #[builder(default = false)]
    pub split_share: bool,
    /// Whether children that borrow this communicator and leave ranks out
    /// ([`shrink_shared`](crate::Communicator::shrink_shared)) share its resources. All ranks
    /// choose the same. `false` unless set. NCCL: the parent's `shrinkShare`, 2.27.
    #[builder(default = false)]
    pub shrink_share: bool,
    /// The memory that sends and receives accept. All ranks choose the same. [`Transfers::Any`]
    /// unless set.
    #[builder(default)]
    pub transfers: Transfers,
    /// The number of thread blocks of its kernels. All ranks choose the same. NCCL's choice unless
    /// set. NCCL: `minCTAs`, `maxCTAs`, `cgaClusterSize`, 2.17; `nvlsCTAs`, `CTAPolicy`, 2.27.
    #[builder(default)]
    pub ctas: Ctas,
    /// How it uses the network. NCCL's choice unless set. NCCL: `netName`, 2.17; `trafficClass`,
    /// 2.26; `collnetEnable`, 2.27; `nChannelsPerNetPeer`, 2.28.
    #[builder(default, setter(into))]
    pub network: Network,
    /// The maximum number of peers that a rank exchanges transfers with at once. Fewer peers get
    /// more channels each, also in `all_to_all`, `gather` and `scatter`. All ranks choose the same.
    /// All peers unless set. NCCL: `maxP2pPeers`, 2.30.
    #[builder(default, setter(strip_option))]
    pub p2p_peers: Option<u32>,
    /// Whether transfers are scheduled over NVLink first and the network second. All ranks choose
    /// the same. NCCL's choice unless set. NCCL: `nvlinkCentricSched`, 2.28.
    #[builder(default, setter(strip_option))]
    pub nvlink_first: Option<bool>,
    /// Which uses of NVLink multicast are allowed. All ranks choose the same. NCCL's choice unless
    /// set. NCCL: `nvlsHostMode`, 2.32.
    #[builder(default)]
    pub multicast: Multicast,
    /// Whether windows can be targets of counted transfers. All ranks choose the same. NCCL's
    /// choice unless set. NCCL: `hostCftMode`, 2.31.
    #[builder(default)]
    pub counted_transfers: CountedTransfers,
    /// How its operations mix with CUDA graphs. Each rank may choose its own. NCCL's choice unless
    /// set, which allows any combination. NCCL: `graphUsageMode`, 2.29; `graphStreamOrdering`,
    /// 2.30.7.
    #[builder(default)]
    pub graphs: GraphUse,
    /// What orders its operations and those of other communicators on one GPU. Each rank may choose
    /// its own, but communicators in use at the same time must agree. NCCL's choice unless set.
    /// NCCL: `launchOrderImplicit`, 2.31.
    #[builder(default)]
    pub launch_order: LaunchOrder,
    /// What this rank does about late ranks; each rank may choose its own. [`Stragglers::Wait`]
    /// unless set. It applies while this rank waits on the host, and when it asks for the
    /// communicator's health.
    #[builder(default)]
    pub stragglers: Stragglers,
    /// How many of its last groups of operations are kept for
    /// [`flight_record`](crate::Communicator::flight_record); each rank may choose its own. 0 keeps
    /// none, or 2,000 if `TYPED_NCCL_FLIGHT_RECORD` or `TYPED_NCCL_TRACE` is set. 0 unless set. A
    /// call that is recorded costs a few microseconds more.
    #[builder(default = 0)]
    pub flight_record: u32,
    /// A callback for changes of the communicator's state. It gets each [`Change`] once and in
    /// order, from when the communicator is ready until it has ended, across `recover` and
    /// `shrink`. It runs on whichever thread detects the change, one thread at a time, so it must
    /// not block. A panic in it is caught and logged. A child has a callback of its own, passed to
    /// `split_with`. None unless set.
    ///
    /// ```
    /// # use typed_nccl::{Change, CommConfig};
    /// let config = CommConfig::builder().watch(|change: &Change| eprintln!("{change}")).build();
    /// // One callback for several communicators is a `Watch`, in the field.
    /// let mut other = CommConfig::default();
    /// other.watch = config.watch.clone();
    /// # assert!(other.watch.is_some());
    /// ```
    #[builder(default, setter(
        fn transform(watch: impl Fn(&Change) + Send + Sync + 'static) -> Option<Watch> {
            Some(Watch::new(watch))
        }
    ))]
    pub watch: Option<Watch>,
}

impl CommConfig {
    /// Contexts and signals; both are 0 if one-sided operations are disabled.
    pub(crate) fn slots(&self) -> Slot {
        match self.contexts > 0 && self.signals > 0 {
            true => Slot::at(self.contexts, self.signals),
            false => Slot::at(0, 0),
        }
    }

    /// Whether signals are set up before the first symmetric window.
    pub(crate) fn has_signals(&self) -> bool {
        self.early_signals && self.slots().context > 0
    }

    /// Describes an option that every release of NCCL rejects, if any.
    pub(crate) fn fault(&self) -> Option<String> {
        let peers = self.p2p_peers.filter(|peers| i32::try_from(*peers).is_ok_and(|n| n > 0));
        if let (None, Some(peers)) = (peers, self.p2p_peers) {
            return Some(format!("`p2p_peers({peers})` is not within 1 and {}", i32::MAX));
        }
        self.ctas.fault().or_else(|| self.network.fault())
    }

    /// [`fault`](Self::fault) of a child's configuration, as an error for this rank.
    pub(crate) fn check(&self, rank: Rank, size: usize) -> Result<()> {
        let Some(fault) = self.fault() else { return Ok(()) };
        let (ranks, why) = (vec![rank], format!("asks for what no NCCL has: {fault}"));
        Err(Error::from(InitFailed { size, ranks, why }))
    }

    /// The values of NCCL's fields, except contexts, signals and the name.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let (number, nvlink_first) = (Setting::number, self.nvlink_first.map(i32::from));
        let chosen = [
            number("CommConfig::p2p_peers", "maxP2pPeers", self.p2p_peers.map(u32::cast_signed)),
            number("CommConfig::nvlink_first", "nvlinkCentricSched", nvlink_first),
            self.multicast.setting(),
            self.counted_transfers.setting(),
        ];
        let shared = [
            self.launch_order.setting(),
            number("CommConfig::early_signals", EARLY_SIGNALS, self.early_signals.then_some(1)),
            number("CommConfig::split_share", "splitShare", self.split_share.then_some(1)),
            number("CommConfig::shrink_share", "shrinkShare", self.shrink_share.then_some(1)),
        ];
        let all = self.ctas.settings().into_iter().chain(self.network.settings());
        all.chain(chosen).chain(self.graphs.settings()).chain(shared).flatten().collect()
    }

    /// The options that must be the same on all ranks.
    pub(crate) fn alike(&self) -> Alike {
        Alike::of(self)
    }
}

impl Default for CommConfig {
    fn default() -> Self {
        Self::builder().build()
    }
}
