//! The resources that a device communicator is made with.

use super::gin::{Connection, Gin, GinParts};
use crate::communicator::{Setting, Value};
use crate::error::{Error, Unsupported};
use crate::{Properties, Team};

/// The resources of a [`DevComm`](crate::DevComm): the same on all ranks, and none by default.
///
/// ```
/// use typed_nccl::{Gin, Requirements};
///
/// let near = Requirements::new().lsa_barriers(16).lsa_multimem();
/// let far = Requirements::new().gin(Gin::every_rank().contexts(4).signals(8).world_barriers(1));
/// ```
///
/// NCCL: `ncclDevCommRequirements_t`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use = "it is what `comm.dev_comm(&api, &requirements)` makes a device communicator for"]
pub struct Requirements {
    pub(crate) lsa_barriers: u32,
    pub(crate) lsa_multimem: bool,
    all_to_all: Option<(u32, u32)>,
    pub(crate) gin: Option<GinParts>,
    counted: Option<(Counted, u32)>,
    pub(crate) listed: Vec<Listed>,
}

/// A requirement for which NCCL returns a handle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Listed {
    Multimem(Team),
    LsaBarriers(Team, u32),
    GinBarriers(Team, u32),
    AllToAll { blocks: u32, elements: u32, size: u32 },
    Buffer { bytes: usize, align: usize },
    Range { signals: u32, counters: u32 },
}

/// Counted transfers by kernels. NCCL: `ncclCftCap_t`, 2.31.
///
/// ```
/// # use typed_nccl::{Counted, Requirements};
/// fn with(counted: Counted) -> Requirements {
///     Requirements::new().counted(counted, 4) // with four barriers
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Counted {
    /// To one rank.
    OneRank,
    /// By multicast.
    ByMulticast,
    /// Both.
    Both,
}

/// Carries the message that signals and counters need a network. Never implemented. Sealed.
#[diagnostic::on_unimplemented(
    message = "signals and counters of kernels are the network's, and this asks for none",
    label = "NCCL has them for kernels that put over the network",
    note = "ask for them with the connections: `Requirements::new().gin(Gin::every_rank().signals(8).counters(2))`"
)]
pub trait AsksForTheNetwork: sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

impl Requirements {
    /// Not available here: signals belong to the network, [`Gin::signals`].
    pub fn signals<N: AsksForTheNetwork>(self, count: N) -> Self {
        let _ = count;
        self
    }

    /// Not available here: counters belong to the network, [`Gin::counters`].
    pub fn counters<N: AsksForTheNetwork>(self, count: N) -> Self {
        let _ = count;
        self
    }

    /// No resources beyond what every device communicator has: the ranks and the windows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Barriers of the ranks that reach each other's memory
    /// ([`lsa_team`](crate::Communicator::lsa_team)), from number 0. A kernel uses one for each of
    /// its thread blocks. NCCL: `lsaBarrierCount`.
    pub fn lsa_barriers(self, count: u32) -> Self {
        Self { lsa_barriers: count, ..self }
    }

    /// Barriers of a team among the ranks that reach each other's memory;
    /// [`DevComm::lsa_barriers_of`](crate::DevComm::lsa_barriers_of) returns their handle. NCCL:
    /// `ncclLsaBarrierCreateRequirement`.
    pub fn lsa_barriers_of(self, team: Team, count: u32) -> Self {
        self.with(Listed::LsaBarriers(team, count))
    }

    /// Multicast among the ranks that reach each other's memory. Refused if the machine does not
    /// support it ([`Properties::multimem`]). NCCL: `lsaMultimem`.
    pub fn lsa_multimem(self) -> Self {
        Self { lsa_multimem: true, ..self }
    }

    /// Multicast among the ranks of a team; [`DevComm::multimem_of`](crate::DevComm::multimem_of)
    /// returns its handle. NCCL: `ncclTeamRequirements_t`.
    pub fn multimem_of(self, team: Team) -> Self {
        self.with(Listed::Multimem(team))
    }

    /// Slots for this many thread blocks that exchange small messages among the ranks that reach
    /// each other's memory. NCCL: `lsaLLA2ABlockCount`, `lsaLLA2ASlotCount`; `ncclLLA2ACalcSlots`
    /// computes the number of slots.
    pub fn all_to_all(self, blocks: u32, slots: u32) -> Self {
        Self { all_to_all: Some((blocks, slots)), ..self }
    }

    /// Slots for exchanges of this many elements of this size in bytes, with a handle of their own.
    /// Look it up by the order of calls with
    /// [`DevComm::all_to_all_of`](crate::DevComm::all_to_all_of). NCCL:
    /// `ncclLLA2ACreateRequirement`.
    pub fn all_to_all_of(self, blocks: u32, elements: u32, size: u32) -> Self {
        self.with(Listed::AllToAll { blocks, elements, size })
    }

    /// Memory in every rank that peers can reach. Look up its handle by the order of calls with
    /// [`DevComm::buffer`](crate::DevComm::buffer). NCCL: `ncclDevResourceRequirements_t`.
    pub fn buffer(self, bytes: usize, align: usize) -> Self {
        self.with(Listed::Buffer { bytes, align })
    }

    /// Network connections of kernels, and their resources. NCCL 2.29.7.
    pub fn gin<C: Connection>(self, gin: Gin<C>) -> Self {
        let Gin { parts, listed, .. } = gin;
        let mut made = Self { gin: Some(parts), ..self };
        made.listed.extend(listed);
        made
    }

    /// Counted transfers, with this many barriers. NCCL: `cftCaps`, `cftBarrierCount`, 2.31.
    pub fn counted(self, counted: Counted, barriers: u32) -> Self {
        Self { counted: Some((counted, barriers)), ..self }
    }

    fn with(mut self, listed: Listed) -> Self {
        self.listed.push(listed);
        self
    }

    /// The options that are set, by our names and NCCL's.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let mut all = Vec::new();
        let mut put = |option, field, value| all.push(Setting::alike(option, field, value));
        let number = |count: u32| Value::Number(count.cast_signed());
        if self.lsa_barriers > 0 {
            put("Requirements::lsa_barriers", "lsaBarrierCount", number(self.lsa_barriers));
        }
        if self.lsa_multimem {
            put("Requirements::lsa_multimem", "lsaMultimem", Value::Number(1));
        }
        if let Some((blocks, slots)) = self.all_to_all {
            put("Requirements::all_to_all", "lsaLLA2ABlockCount", number(blocks));
            put("Requirements::all_to_all", "lsaLLA2ASlotCount", number(slots));
        }
        if let Some(gin) = &self.gin {
            gin.settings(&mut put);
        }
        if let Some((counted, barriers)) = self.counted {
            put("Requirements::counted", "cftCaps", counted.value());
            put("Requirements::counted", "cftBarrierCount", number(barriers));
        }
        all
    }

    /// A canonical description, equal on all ranks with the same requirements.
    pub(crate) fn signature(&self) -> String {
        let settings = self.settings();
        let settings = settings.iter().map(|set| match set.field {
            "lsaMultimem" => "multicast".to_owned(),
            field => format!("{field} {}", set.value),
        });
        let all: Vec<_> = settings.chain(self.listed.iter().map(Listed::signature)).collect();
        if all.is_empty() { "nothing beside the ranks".to_owned() } else { all.join(", ") }
    }

    /// The first requirement that only NCCL's device code can use.
    pub(crate) fn for_kernels(&self) -> Option<&'static str> {
        let listed = self.listed.first().map(Listed::option);
        self.all_to_all.map(|_| "Requirements::all_to_all").or(listed)
    }

    /// The first requirement that no communicator, or not this one, can meet.
    pub(crate) fn fault(&self, has: &Properties) -> Option<Error> {
        let number = |set: &Setting| match set.value {
            Value::Number(count) => count < 0,
            _ => false,
        };
        if let Some(set) = self.settings().iter().find(|set| number(set)) {
            return Some(Unsupported::error(
                set.name(),
                "a number that a C `int` has",
                "it is larger",
            ));
        }
        let wants_multimem = self.lsa_multimem
            || self.listed.iter().any(|listed| matches!(listed, Listed::Multimem(_)));
        if wants_multimem && !has.multimem {
            let what = match self.lsa_multimem {
                true => "`Requirements::lsa_multimem`",
                false => "`Requirements::multimem_of`",
            };
            let found = "`comm.properties()?.multimem` is false";
            return Some(Unsupported::error(what, "NVLink multicast", found));
        }
        if let Some((counted, _)) = self.counted {
            let has = match counted {
                Counted::OneRank => has.cft,
                _ => has.cft.zip(has.cft_multicast).map(|(one, all)| one && all),
            };
            if has == Some(false) {
                let what = "`Requirements::counted`";
                let found = "`comm.properties()?` has no `cft`, or no `cft_multicast`";
                return Some(Unsupported::error(what, "counted transfers of that kind", found));
            }
        }
        let listed = self.listed.iter().find_map(Listed::fault);
        listed.or_else(|| self.gin.as_ref()?.fault(has))
    }
}

impl Counted {
    fn value(self) -> Value {
        match self {
            Self::OneRank => Value::Named(1, "one rank"),
            Self::ByMulticast => Value::Named(2, "multicast"),
            Self::Both => Value::Named(3, "one rank and multicast"),
        }
    }
}

impl Listed {
    fn option(&self) -> &'static str {
        match self {
            Self::Multimem(_) => "Requirements::multimem_of",
            Self::LsaBarriers(..) => "Requirements::lsa_barriers_of",
            Self::GinBarriers(..) => "Gin::barriers_of",
            Self::AllToAll { .. } => "Requirements::all_to_all_of",
            Self::Buffer { .. } => "Requirements::buffer",
            Self::Range { .. } => "Gin::range",
        }
    }

    fn signature(&self) -> String {
        let team = |team: &Team| format!("{} ranks, every {}.", team.size, team.stride);
        match self {
            Self::Multimem(of) => format!("multicast of {}", team(of)),
            Self::LsaBarriers(of, count) => format!("{count} barriers of {}", team(of)),
            Self::GinBarriers(of, count) => {
                format!("{count} barriers over the network of {}", team(of))
            }
            Self::AllToAll { blocks, elements, size } => {
                format!("an exchange of {elements} elements of {size} bytes in {blocks} blocks")
            }
            Self::Buffer { bytes, align } => format!("{bytes} bytes, aligned to {align}"),
            Self::Range { signals, counters } => format!("{signals} signals, {counters} counters"),
        }
    }

    /// The team that it concerns.
    pub(crate) fn team(&self) -> Option<&Team> {
        match self {
            Self::Multimem(team) | Self::LsaBarriers(team, _) | Self::GinBarriers(team, _) => {
                Some(team)
            }
            _ => None,
        }
    }

    fn fault(&self) -> Option<Error> {
        let what = format!("`{}`", self.option());
        let counts = match *self {
            Self::Multimem(_) => Vec::new(),
            Self::LsaBarriers(_, count) | Self::GinBarriers(_, count) => vec![count],
            Self::AllToAll { blocks, elements, size } => vec![blocks, elements, size],
            Self::Range { signals, counters } => vec![signals, counters],
            Self::Buffer { align, .. } => {
                let found = format!("it is {align}");
                return (!align.is_power_of_two())
                    .then(|| Unsupported::error(what, "an alignment that is a power of 2", found));
            }
        };
        let is_too_large = counts.iter().any(|count| i32::try_from(*count).is_err());
        is_too_large
            .then(|| Unsupported::error(what, "numbers that a C `int` has", "one is larger"))
    }
}
