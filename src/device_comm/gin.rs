//! Network connections for kernels: NCCL's GIN.
//!
//! Options that require a connection exist only on `Gin`, and options that require a connection to
//! every rank only on a `Gin` of that kind: NCCL refuses the other combinations.

use std::marker::PhantomData;

use super::requirements::Listed;
use crate::communicator::Value;
use crate::error::{Error, Unsupported};
use crate::{GinType, Properties, Team};

/// Kernels reach every rank over the network. NCCL: `NCCL_GIN_CONNECTION_FULL`.
///
/// See the example of [`Gin`].
#[derive(Clone, Copy, Debug)]
pub struct EveryRank;

/// Kernels reach the ranks of their own rail. NCCL: `NCCL_GIN_CONNECTION_RAIL`.
///
/// See the example of [`Gin`].
#[derive(Clone, Copy, Debug)]
pub struct SameRail;

/// Kernels reach the ranks at multiples of a stride. NCCL: `NCCL_GIN_CONNECTION_CUSTOM_STRIDE`,
/// 2.31.
///
/// See the example of [`Gin`].
#[derive(Clone, Copy, Debug)]
pub struct EveryNth;

/// Which ranks kernels reach over the network. Sealed.
///
/// See the example of [`Gin`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which ranks kernels reach over the network",
    note = "they are `EveryRank`, `SameRail` and `EveryNth`: `Gin::every_rank()`, `Gin::same_rail()`, `Gin::every_nth(stride)`"
)]
pub trait Connection: sealed::Sealed {}

impl Connection for EveryRank {}
impl Connection for SameRail {}
impl Connection for EveryNth {}

/// Connections that reach every rank.
///
/// See the example of [`Gin`].
#[diagnostic::on_unimplemented(
    message = "a barrier of all ranks over the network needs connections to all of them",
    label = "these connections are those of `{Self}`",
    note = "NCCL refuses it when the device communicator is made",
    note = "ask for it on `Gin::every_rank()`, or for a barrier of the rail's ranks with `rail_barriers(n)`"
)]
pub trait ReachesAll: Connection {}

impl ReachesAll for EveryRank {}

/// Network connections for kernels to the ranks that `C` selects, and the resources that kernels
/// use with them.
///
/// ```
/// # use typed_nccl::{Connection, EveryNth, EveryRank, Gin, ReachesAll, Requirements, SameRail};
/// fn with_signals<C: Connection>(network: Gin<C>) -> Requirements {
///     Requirements::new().gin(network.contexts(2).signals(8))
/// }
/// fn with_barriers<C: ReachesAll>(network: Gin<C>) -> Requirements {
///     with_signals(network.world_barriers(1))
/// }
/// let all: Gin<EveryRank> = Gin::every_rank();
/// let (rail, some): (Gin<SameRail>, Gin<EveryNth>) = (Gin::same_rail(), Gin::every_nth(8));
/// println!("{:?}, {:?}, {:?}", with_barriers(all), with_signals(rail), with_signals(some));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "it is part of `Requirements`: `Requirements::new().gin(gin)`"]
pub struct Gin<C = EveryRank> {
    pub(crate) parts: GinParts,
    pub(crate) listed: Vec<Listed>,
    connection: PhantomData<fn() -> C>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GinParts {
    reach: Reach,
    way: Option<GinType>,
    contexts: Option<u32>,
    pub(crate) signals: u32,
    pub(crate) counters: u32,
    pub(crate) barriers: u32,
    pub(crate) rail_barriers: u32,
    pub(crate) world_barriers: u32,
    exclusive: bool,
    queue_depth: Option<u32>,
    traffic_class: Option<u32>,
    no_strong_signals: bool,
    no_address_signals: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    All,
    Rail,
    Nth(u32),
}

impl Gin {
    /// To every rank.
    pub fn every_rank() -> Self {
        Self::of(Reach::All)
    }
}

impl Gin<SameRail> {
    /// To the ranks of the same rail ([`TeamOf::Rail`](crate::TeamOf)).
    pub fn same_rail() -> Self {
        Self::of(Reach::Rail)
    }
}

impl Gin<EveryNth> {
    /// To the ranks at multiples of `stride`, which is a multiple of
    /// [`Properties::gin_min_stride`]. NCCL: `ginCustomStride`, 2.31.
    pub fn every_nth(stride: u32) -> Self {
        Self::of(Reach::Nth(stride))
    }
}

impl<C: Connection> Gin<C> {
    fn of(reach: Reach) -> Self {
        let parts = GinParts {
            reach,
            way: None,
            contexts: None,
            signals: 0,
            counters: 0,
            barriers: 0,
            rail_barriers: 0,
            world_barriers: 0,
            exclusive: false,
            queue_depth: None,
            traffic_class: None,
            no_strong_signals: false,
            no_address_signals: false,
        };
        Self { parts, listed: Vec::new(), connection: PhantomData }
    }

    fn set(mut self, set: impl FnOnce(&mut GinParts)) -> Self {
        set(&mut self.parts);
        self
    }

    /// Uses this kind of network access instead of the best one. NCCL: `ginType`, 2.31.
    pub fn over(self, way: GinType) -> Self {
        self.set(|parts| parts.way = Some(way))
    }

    /// Requests this many contexts; the default is 4.
    /// [`DevComm::gin_contexts`](crate::DevComm::gin_contexts) returns the actual number. NCCL:
    /// `ginContextCount`.
    pub fn contexts(self, count: u32) -> Self {
        self.set(|parts| parts.contexts = Some(count))
    }

    /// Signals, from number 0. NCCL: `ginSignalCount`.
    pub fn signals(self, count: u32) -> Self {
        self.set(|parts| parts.signals = count)
    }

    /// Counters, from number 0. NCCL: `ginCounterCount`.
    pub fn counters(self, count: u32) -> Self {
        self.set(|parts| parts.counters = count)
    }

    /// Signals and counters of this request's own, in addition to those from number 0. Look them up
    /// by the order of requests with [`DevComm::range`](crate::DevComm::range). NCCL:
    /// `ncclDevResourceRequirements_t`, 2.31: earlier releases drop them silently.
    pub fn range(mut self, signals: u32, counters: u32) -> Self {
        self.listed.push(Listed::Range { signals, counters });
        self
    }

    /// Barriers of all ranks: through memory where ranks share it, over the network elsewhere.
    /// NCCL: `barrierCount`.
    pub fn barriers(self, count: u32) -> Self {
        self.set(|parts| parts.barriers = count)
    }

    /// Barriers of the ranks of a rail. NCCL: `railGinBarrierCount`.
    pub fn rail_barriers(self, count: u32) -> Self {
        self.set(|parts| parts.rail_barriers = count)
    }

    /// Barriers of the ranks of a team
    /// ([`DevComm::gin_barriers_of`](crate::DevComm::gin_barriers_of)). NCCL:
    /// `ncclGinBarrierCreateRequirement`, 2.31: earlier releases drop their signals silently.
    pub fn barriers_of(mut self, team: Team, count: u32) -> Self {
        self.listed.push(Listed::GinBarriers(team, count));
        self
    }

    /// Barriers of all ranks, only over the network. NCCL: `worldGinBarrierCount`, 2.30.
    pub fn world_barriers(self, count: u32) -> Self
    where
        C: ReachesAll,
    {
        self.set(|parts| parts.world_barriers = count)
    }

    /// Contexts that no other device communicator uses. NCCL: `ginExclusiveContexts`.
    pub fn exclusive_contexts(self) -> Self {
        self.set(|parts| parts.exclusive = true)
    }

    /// The depth of the network's queues. NCCL: `ginQueueDepth`.
    pub fn queue_depth(self, depth: u32) -> Self {
        self.set(|parts| parts.queue_depth = Some(depth))
    }

    /// The traffic class of its packets. NCCL: `ginTrafficClass`, 2.30.
    pub fn traffic_class(self, class: u32) -> Self {
        self.set(|parts| parts.traffic_class = Some(class))
    }

    /// Declares that kernels use no strong signals, which some networks lack. NCCL:
    /// `ginStrongSignalsRequired`, 2.30.7.
    pub fn without_strong_signals(self) -> Self {
        self.set(|parts| parts.no_strong_signals = true)
    }

    /// Declares that kernels use no signals by address, which some networks lack. NCCL:
    /// `ginVaSignalsRequired`, 2.30.7.
    pub fn without_address_signals(self) -> Self {
        self.set(|parts| parts.no_address_signals = true)
    }
}

impl GinParts {
    /// The options that are set, by our names and NCCL's.
    pub(crate) fn settings(&self, put: &mut impl FnMut(&'static str, &'static str, Value)) {
        let (reach, option) = match self.reach {
            Reach::All => (Value::Named(1, "every rank"), "Gin::every_rank"),
            Reach::Rail => (Value::Named(2, "the same rail"), "Gin::same_rail"),
            Reach::Nth(_) => (Value::Named(3, "a stride"), "Gin::every_nth"),
        };
        put(option, "ginConnectionType", reach);
        let stride = match self.reach {
            Reach::Nth(stride) => Some(stride),
            _ => None,
        };
        let some = |count: u32| (count > 0).then_some(count);
        let counts = [
            ("Gin::every_nth", "ginCustomStride", stride),
            ("Gin::contexts", "ginContextCount", self.contexts),
            ("Gin::signals", "ginSignalCount", some(self.signals)),
            ("Gin::counters", "ginCounterCount", some(self.counters)),
            ("Gin::barriers", "barrierCount", some(self.barriers)),
            ("Gin::rail_barriers", "railGinBarrierCount", some(self.rail_barriers)),
            ("Gin::world_barriers", "worldGinBarrierCount", some(self.world_barriers)),
            ("Gin::exclusive_contexts", "ginExclusiveContexts", some(self.exclusive.into())),
            ("Gin::queue_depth", "ginQueueDepth", self.queue_depth),
            ("Gin::traffic_class", "ginTrafficClass", self.traffic_class),
            (
                "Gin::without_strong_signals",
                "ginStrongSignalsRequired",
                self.no_strong_signals.then_some(0),
            ),
            (
                "Gin::without_address_signals",
                "ginVaSignalsRequired",
                self.no_address_signals.then_some(0),
            ),
        ];
        for (option, field, count) in counts {
            if let Some(count) = count {
                put(option, field, Value::Number(count.cast_signed()));
            }
        }
        if let Some(way) = self.way {
            put("Gin::over", "ginType", Value::Number(way.code()));
        }
    }

    pub(crate) fn fault(&self, has: &Properties) -> Option<Error> {
        let none = Some(GinType::None);
        let (all, rail) = (has.gin != none, has.railed_gin != none);
        let fault = |what, needs: &str, found: &str| Some(Unsupported::error(what, needs, found));
        let network = "a network that NCCL's kernels reach";
        match self.reach {
            Reach::All if !all && rail => {
                let found = "it reaches those of the same rail: `Gin::same_rail()`";
                return fault("`Gin::every_rank`", "a network that reaches every rank", found);
            }
            Reach::All if !all => {
                return fault("`Gin::every_rank`", network, "`comm.properties()?.gin` is `None`");
            }
            Reach::Rail | Reach::Nth(_) if !all && !rail => {
                let found = "`comm.properties()?.railed_gin` is `None`";
                return fault("`Gin::same_rail`", network, found);
            }
            Reach::Nth(stride) => {
                let least = has.gin_min_stride.unwrap_or(1).max(1);
                if stride == 0 || !(stride as usize).is_multiple_of(least) {
                    let needs = format!("a multiple of {least}");
                    return fault("`Gin::every_nth`", &needs, &format!("it is {stride}"));
                }
            }
            _ => {}
        }
        let way = self.way?;
        let ways = has.gin_types.as_ref()?;
        let found = format!("there are {ways:?}, and not {way:?}");
        if ways.contains(&way) { None } else { fault("`Gin::over`", "a way that there is", &found) }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::EveryRank {}
    impl Sealed for super::SameRail {}
    impl Sealed for super::EveryNth {}
}
