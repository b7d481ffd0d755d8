//! Configuration of a single call.

use std::hash::{Hash, Hasher};

use siphasher::sip::SipHasher13;
use typed_builder::TypedBuilder;

use super::Ctas;
#[cfg(feature = "cuda")]
use super::LaunchEvent;
use super::settings::{Setting, Value};
use crate::Result;
use crate::backend::{Backend, Collective, Op};
use crate::error::{CollectiveName, Error, Unsupported};

/// Configures one call of a collective. `comm.with(&config)` has every collective, as do
/// `comm.on(&stream).with(&config)` and, in a group, `g.with(&config)`. Options left unset are the
/// communicator's.
///
/// All ranks must pass the same configuration; a difference is reported like a difference in
/// length. It is checked on every device and has no effect on the host. NCCL: `ncclCollConfig_t`,
/// 2.31; older releases return [`Error::Unsupported`].
///
/// ```
/// use typed_nccl::{Algorithm, Algorithms, Buffer, CallConfig, Communicator, Ctas, Protocol, Result, Sum, World};
///
/// fn quietly<W: World>(comm: &Communicator<W>, x: &mut Buffer<f32, W::Device>) -> Result<()> {
///     // Beside a kernel of the program's own: few thread blocks, and a ring if that can be.
///     let ring = Algorithms::prefer([Algorithm::Ring(Protocol::Any)]);
///     let config = CallConfig::builder().ctas(Ctas::at_most(2)).algorithms(ring).build();
///     comm.with(&config).all_reduce_in_place(x, Sum)
/// }
/// # fn body<W: World>(comm: Communicator<W>) -> Result<()> {
/// #     let mut x = typed_nccl::Device::zeros(comm.device(), 4)?;
/// #     quietly(&comm, &mut x)?;
/// #     comm.finish()
/// # }
/// # fn main() -> Result<()> {
/// #     typed_nccl::launch!(body)
/// # }
/// ```
#[derive(Clone, Debug, Default, TypedBuilder)]
#[non_exhaustive]
pub struct CallConfig {
    /// The number of thread blocks, at most the communicator's. Cluster sizes must match across the
    /// collectives of a group. NCCL: `minCTAs`, `maxCTAs`, `nvlsCTAs`, `cgaClusterSize`,
    /// `CTAPolicy`, 2.31.
    #[builder(default)]
    pub ctas: Ctas,
    /// The algorithms NCCL may choose from. Any unless set. NCCL: `algSelection`,
    /// `forceAlgSelection`, 2.31.
    #[builder(default)]
    pub algorithms: Algorithms,
    /// A number that identifies the call to profilers, below 2^63. 0, meaning none, unless set.
    /// NCCL: `userProfilerTag`, 2.31.
    #[builder(default)]
    pub profiler_tag: u64,
    /// An event recorded once the call's kernel has been launched. Either every rank passes one of
    /// its own or none does. A group may have one at most, and a graph none. NCCL:
    /// `launchCompletionEvent`, 2.32.
    #[cfg(feature = "cuda")]
    #[builder(default, setter(transform = |event: &LaunchEvent| Some(event.clone())))]
    pub launched: Option<LaunchEvent>,
}

/// The NCCL algorithms a collective may use.
///
/// See the example of [`CallConfig`].
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[must_use = "it is an option of a configuration"]
pub struct Algorithms {
    of: Vec<Algorithm>,
    /// Whether NCCL must use one of them.
    is_forced: bool,
}

/// One of NCCL's algorithms.
///
/// See the example of [`CallConfig`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Algorithm {
    /// Around a ring: `all_reduce`, `broadcast`, `reduce`, `all_gather`, `reduce_scatter`.
    Ring(Protocol),
    /// Up and down two trees: `all_reduce`.
    Tree(Protocol),
    /// In the network's switches, from each GPU: `all_reduce`, `all_gather`, `reduce_scatter`.
    CollnetDirect,
    /// In the network's switches, from a chain of GPUs: `all_reduce`.
    CollnetChain,
    /// In NVLink's switches: `all_reduce`, `all_gather`, `reduce_scatter`.
    Nvls,
    /// In NVLink's switches, and by trees between hosts: `all_reduce`.
    NvlsTree,
    /// By parallel aggregated trees: `all_gather`, `reduce_scatter`.
    Pat,
    /// By kernels of symmetric windows: `all_reduce`, `all_gather`, `reduce_scatter`.
    SymmetricKernels,
}

/// How an algorithm's messages travel.
///
/// See the example of [`CallConfig`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// NCCL's choice.
    #[default]
    Any,
    /// A flag beside each word, for the lowest latency. NCCL matches protocols by prefix, so this
    /// also allows `LL128`.
    LL,
    /// Lines of 128 bytes with a flag each.
    LL128,
    /// Large chunks, for the highest bandwidth.
    Simple,
}

impl Algorithms {
    /// Prefers these, and falls back to any other.
    pub fn prefer(of: impl IntoIterator<Item = Algorithm>) -> Self {
        Self { of: of.into_iter().collect(), is_forced: false }
    }

    /// Allows only these. If the hardware supports none of them, NCCL fails and the communicator is
    /// poisoned.
    pub fn only(of: impl IntoIterator<Item = Algorithm>) -> Self {
        Self { of: of.into_iter().collect(), is_forced: true }
    }

    /// The value for NCCL's field; `None` allows any algorithm.
    fn text(&self) -> Option<String> {
        let names: Vec<_> = self.of.iter().map(|one| one.name()).collect();
        (!names.is_empty()).then(|| names.join(","))
    }
}

impl Algorithm {
    /// NCCL's name for it, or the prefix of its names.
    fn name(self) -> &'static str {
        match self {
            Self::Ring(Protocol::Any) => "RING",
            Self::Ring(Protocol::LL) => "RING_LL",
            Self::Ring(Protocol::LL128) => "RING_LL128",
            Self::Ring(Protocol::Simple) => "RING_SIMPLE",
            Self::Tree(Protocol::Any) => "TREE",
            Self::Tree(Protocol::LL) => "TREE_LL",
            Self::Tree(Protocol::LL128) => "TREE_LL128",
            Self::Tree(Protocol::Simple) => "TREE_SIMPLE",
            Self::CollnetDirect => "COLLNET_DIRECT",
            Self::CollnetChain => "COLLNET_CHAIN",
            Self::Nvls => "NVLS_SIMPLE",
            Self::NvlsTree => "NVLSTREE",
            Self::Pat => "PAT",
            Self::SymmetricKernels => "SYMK",
        }
    }

    /// Whether NCCL implements it for a collective, on any hardware.
    fn is_for(self, name: CollectiveName) -> bool {
        use CollectiveName::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
        match self {
            Self::Ring(_) => {
                matches!(name, AllReduce | Broadcast | Reduce | AllGather | ReduceScatter)
            }
            Self::Tree(_) | Self::CollnetChain | Self::NvlsTree => name == AllReduce,
            Self::CollnetDirect | Self::Nvls | Self::SymmetricKernels => {
                matches!(name, AllReduce | AllGather | ReduceScatter)
            }
            Self::Pat => matches!(name, AllGather | ReduceScatter),
        }
    }
}

impl CallConfig {
    /// Describes an option that NCCL would reject for this collective, if any.
    fn fault(&self, name: CollectiveName) -> Option<String> {
        if let Some(fault) = self.ctas.fault() {
            return Some(fault);
        }
        if self.profiler_tag >> 63 != 0 {
            return Some(format!("`profiler_tag({})` is not below 2^63", self.profiler_tag));
        }
        let Algorithms { of, is_forced } = &self.algorithms;
        if *is_forced && !of.iter().any(|one| one.is_for(name)) {
            return Some(format!("`Algorithms::only({of:?})` has none of {name}'s algorithms"));
        }
        None
    }

    /// Attaches this configuration to an operation, or explains why it cannot.
    pub(crate) fn apply<'a, B: Backend>(&'a self, op: Op<'a, B>) -> Result<Op<'a, B>> {
        let Op::Collective(collective) = op else { return Ok(op) };
        match self.fault(collective.name) {
            None => Ok(Op::Collective(Collective { config: Some(self), ..collective })),
            Some(fault) => Err(Error::from(Unsupported {
                what: format!(
                    "{} with a `CallConfig` (at {})",
                    collective.name, collective.call.site
                ),
                needs: "one that NCCL takes".to_owned(),
                found: fault,
            })),
        }
    }

    /// Checks that the collectives can be issued as one group.
    pub(crate) fn together<B: Backend>(ops: &[Op<'_, B>]) -> Result<()> {
        let collectives = || {
            ops.iter().filter_map(|op| match op {
                Op::Collective(one) => Some((one.call.site, one.config)),
                _ => None,
            })
        };
        let cluster = |config: Option<&Self>| config.and_then(|config| config.ctas.cluster_size());
        let mut clusters = collectives().map(|(_, config)| cluster(config));
        let first = clusters.next().flatten();
        let launched = |config: Option<&Self>| config.is_some_and(Self::has_event);
        let mut events = collectives().filter(|(_, config)| launched(*config));
        let (fault, site) = match (clusters.find(|size| *size != first), events.nth(1)) {
            (Some(other), _) => {
                let say = |size: Option<u32>| {
                    size.map_or_else(|| "the communicator's".to_owned(), |size| size.to_string())
                };
                let (one, two) = (say(first), say(other));
                (format!("its collectives have clusters of {one} and {two}"), None)
            }
            (None, Some((site, _))) => {
                ("two of its collectives have a launch event".to_owned(), Some(site))
            }
            (None, None) => return Ok(()),
        };
        let site = site.or_else(|| collectives().map(|(site, _)| site).next());
        let at = site.map_or_else(String::new, |site| format!(" (at {site})"));
        Err(Error::from(Unsupported {
            what: format!("a group{at}"),
            needs: "one cluster size, and one launch event at most".to_owned(),
            found: fault,
        }))
    }

    pub(crate) fn has_event(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.launched.is_some();
        #[cfg(not(feature = "cuda"))]
        false
    }

    /// The options as values of NCCL's fields.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let mut all: Vec<_> = self.ctas.settings().into_iter().flatten().collect();
        if let Some(text) = self.algorithms.text() {
            all.push(Setting::alike("CallConfig::algorithms", "algSelection", Value::Text(text)));
            let forced = Value::Number(self.algorithms.is_forced.into());
            all.push(Setting::alike("CallConfig::algorithms", "forceAlgSelection", forced));
        }
        all
    }

    /// The options for comparison and for messages: `, with minCTAs 2, maxCTAs 4`.
    pub(crate) fn said(&self) -> String {
        let mut all: Vec<String> = self
            .settings()
            .iter()
            .map(|setting| format!("{} {}", setting.field, setting.value))
            .collect();
        if self.profiler_tag != 0 {
            all.push(format!("userProfilerTag {}", self.profiler_tag));
        }
        if self.has_event() {
            all.push("a launch event".to_owned());
        }
        match all.is_empty() {
            true => String::new(),
            false => format!(", with {}", all.join(", ")),
        }
    }

    /// A hash of the configuration from 1 to 55.
    pub(crate) fn digest(&self) -> u8 {
        let mut hasher = SipHasher13::new();
        (self.ctas, &self.algorithms, self.profiler_tag, self.has_event()).hash(&mut hasher);
        (hasher.finish() % 55) as u8 + 1
    }
}

/// The configuration of a collective: the communicator's own, or a [`CallConfig`]. Sealed.
///
/// See the example of [`AsConfigured`].
pub trait PerCall<'c>: Copy + sealed::Sealed {
    #[doc(hidden)]
    fn config(self) -> Option<&'c CallConfig>;
}

/// Required by transfers, because NCCL accepts a configuration only for collectives. Sealed.
///
/// ```
/// # use typed_nccl::{Buffer, Host, On, PerCall, Result, Seat, WithoutConfig};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn send<'c, C>(on: On<'c, Host, C>, x: &Buffer<f32, Host>, to: usize) -> Result<()>
/// where
///     C: PerCall<'c> + WithoutConfig, // `comm.on(&stream)`, not `comm.with(&config)`
/// {
///     on.send(x, to)
/// }
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a send or a receive cannot have a `CallConfig`",
    label = "NCCL configures collectives by the call, not transfers",
    note = "call it without one: `comm.send(&x, to)`, in a group `g.send(&x, to)`"
)]
pub trait WithoutConfig: sealed::Sealed {}

impl WithoutConfig for AsConfigured {}

/// The communicator's own configuration.
///
/// ```
/// # use typed_nccl::{AsConfigured, CallConfig, Host, On, PerCall, Seat, Sum};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// /// With the communicator's configuration, or with one of its own.
/// fn halve<'c, C: PerCall<'c>>(on: On<'c, Host, C>) -> On<'c, Host, C> {
///     on
/// }
/// let config = CallConfig::builder().profiler_tag(7).build();
/// let plain: On<'_, Host, AsConfigured> = halve(comm.on(comm.stream()));
/// let tagged: On<'_, Host, &CallConfig> = halve(comm.with(&config));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AsConfigured;

impl<'c> PerCall<'c> for AsConfigured {
    #[inline]
    fn config(self) -> Option<&'c CallConfig> {
        None
    }
}

impl<'c> PerCall<'c> for &'c CallConfig {
    #[inline]
    fn config(self) -> Option<&'c CallConfig> {
        Some(self)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::AsConfigured {}
    impl Sealed for &super::CallConfig {}
}
