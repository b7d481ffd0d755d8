//! Ranks in teams, and places in windows as kernels name them.

use crate::Rank;
use crate::rank::MOST;

/// Some of a communicator's ranks, evenly spaced: rank i of the team is rank `first + i * stride`
/// of the communicator. NCCL: `ncclTeam_t`.
///
/// ```
/// # use typed_nccl::{Host, Seat, Team};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let all: Team = comm.world_team();
/// assert_eq!((all.size, all.to_world(0)), (1, Some(comm.rank())));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Team {
    /// This rank's place in the team.
    pub rank: usize,
    /// How many ranks the team has.
    pub size: usize,
    /// The communicator's rank of the team's first member.
    pub first: usize,
    /// The distance between two neighbours in the team.
    pub stride: usize,
    /// Rank 0 of the communicator.
    pub(crate) zero: Rank,
}

impl Team {
    /// The communicator's rank of the team's `index`-th member; `None` past its end, or if no rank
    /// has that number. NCCL: `ncclTeamRankToWorld`.
    pub fn to_world(&self, index: usize) -> Option<Rank> {
        let index = Some(index).filter(|&index| index < self.size)?;
        let rank = index.checked_mul(self.stride)?.checked_add(self.first)?;
        Some(rank).filter(|&rank| rank < MOST).map(|rank| self.zero.beside(rank))
    }

    /// The place in the team of a rank of the communicator; `None` if it is not in it. With
    /// [`to_world`](Self::to_world) this converts places between teams. NCCL: `ncclTeamRankToLsa`.
    pub fn index_of(&self, rank: Rank) -> Option<usize> {
        let past = rank.index().checked_sub(self.first)?;
        let index = past.checked_div(self.stride)?;
        let is_in = index < self.size && index * self.stride == past;
        Some(index).filter(|_| is_in && self.zero.beside(rank.index()) == rank)
    }
}

/// Which ranks a team for kernels has. NCCL: `ncclTeamRail`, 2.28; `ncclTeamCft` and
/// `ncclTeamCftMultimem`, 2.31.
///
/// ```
/// # use typed_nccl::{Host, Seat, TeamOf};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// if let Some(rail) = comm.team(TeamOf::Rail)? {
///     println!("{} of {} on this rail", rail.rank, rail.size);
/// }
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TeamOf {
    /// The ranks with this rank's place among their own
    /// [`lsa_team`](crate::Communicator::lsa_team).
    Rail,
    /// All ranks of counted transfers.
    Counted,
    /// The ranks of counted transfers that share multicast.
    CountedMultimem,
    /// The ranks of counted transfers that share memory.
    CountedLsa,
    /// The ranks of counted multicast transfers.
    CountedMulticast,
}

/// A target of counted transfers: a logical endpoint, and an offset there.
///
/// ```
/// # use typed_nccl::{Endpoint, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let window = comm.window::<f32>(4)?;
/// let endpoint: Option<Endpoint> = comm.endpoint_at(window.at(2), 0)?;
/// assert_eq!(endpoint, None); // on GPUs with counted transfers only
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    /// NCCL's number of the endpoint.
    pub id: u32,
    /// In bytes.
    pub offset: usize,
}

/// Whose endpoint.
///
/// Backends are asked by this; programs call `endpoint_at` and its relatives, of which
/// [`Endpoint`] has an example:
///
/// ```
/// use typed_nccl::{EndpointOf, Rank};
///
/// /// Who receives the stores.
/// fn reaches(target: EndpointOf) -> Option<Rank> {
///     match target {
///         EndpointOf::Peer(rank) => Some(rank),
///         EndpointOf::Member(team, index) => team.to_world(index),
///         EndpointOf::Multicast => None, // all
///     }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndpointOf {
    /// A rank's.
    Peer(Rank),
    /// The endpoint of the rank at this place of a team.
    Member(Team, usize),
    /// The endpoint that reaches all ranks at once.
    Multicast,
}
