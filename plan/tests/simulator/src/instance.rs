//! One size of a plan: its ranks, where they stand, and who is in which communicator.

use typed_nccl_plan::ir::{CommunicatorId, Expr, LoopId, Peer, Plan, Region};
use typed_nccl_plan::verdict::Sizes;

use crate::far::World;
use crate::number::{Malformed, Scope};

/// A plan with its sizes.
pub(crate) struct Instance<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) world: World,
    /// Larger ones, where other distances are other ranks.
    pub(crate) larger: [World; 2],
    ranks: usize,
    coordinates: Vec<Vec<i64>>,
    /// For each communicator and rank, the members of its communicator in order.
    members: Vec<Vec<Vec<usize>>>,
    /// For each rank and buffer, the lengths of its allocations.
    lengths: Vec<Vec<Vec<i64>>>,
}

/// Where a peer is.
pub(crate) enum Where {
    Rank(usize),
    /// Past the end of an open axis.
    Absent,
    /// A number that no rank has.
    Outside(i64),
}

impl<'a> Instance<'a> {
    pub(crate) fn new(plan: &'a Plan, sizes: &Sizes) -> Result<Self, Malformed> {
        let extents = sizes.extents.clone();
        if extents.len() != plan.axes.len() || extents.is_empty() || extents.iter().any(|&e| e < 1)
        {
            return Err(Malformed("the extents are not those of the plan's axes".to_owned()));
        }
        let ranks = extents.iter().product::<i64>() as usize;
        let coordinates: Vec<Vec<i64>> = (0..ranks).map(|rank| place(rank, &extents)).collect();
        let members = plan.communicators.iter().map(|communicator| {
            let fixed: Vec<usize> = (0..extents.len())
                .filter(|axis| !communicator.axes.iter().any(|one| one.index() == *axis))
                .collect();
            let alike = |a: usize, b: usize| {
                fixed.iter().all(|&axis| coordinates[a][axis] == coordinates[b][axis])
            };
            (0..ranks).map(|a| (0..ranks).filter(|&b| alike(a, b)).collect()).collect()
        });
        let members = members.collect();
        let world = World { extents, params: sizes.params.clone() };
        let (larger, lengths) = (world.larger(), Vec::new());
        let mut instance = Self { plan, world, larger, ranks, coordinates, members, lengths };
        for rank in 0..ranks {
            let of_rank = plan.buffers.iter().map(|buffer| {
                let count = match &buffer.array {
                    Some(array) => instance.plain(&array.count, None, None)?,
                    None => 1,
                };
                let index = buffer.array.as_ref().map(|array| array.index);
                let rank = (!buffer.window).then_some(rank);
                let len = |at| instance.plain(&buffer.len, rank, index.map(|i| (i, at)));
                (0..count).map(len).collect()
            });
            let of_rank = of_rank.collect::<Result<Vec<Vec<i64>>, _>>()?;
            instance.lengths.push(of_rank);
        }
        Ok(instance)
    }

    fn plain(
        &self,
        expr: &Expr,
        rank: Option<usize>,
        counter: Option<(LoopId, i64)>,
    ) -> Result<i64, Malformed> {
        let mut counters = vec![None; self.plan.counters.len()];
        if let Some((counter, value)) = counter
            && let Some(slot) = counters.get_mut(counter.index())
        {
            *slot = Some(value);
        }
        let world = &self.world;
        Scope { instance: self, rank, counters: &counters, world }.number(expr)
    }

    pub(crate) fn ranks(&self) -> usize {
        self.ranks
    }

    pub(crate) fn coordinates(&self, rank: usize) -> &[i64] {
        &self.coordinates[rank]
    }

    /// The members of this rank's communicator, in order.
    pub(crate) fn members(&self, of: CommunicatorId, rank: usize) -> Result<&[usize], Malformed> {
        let list = self.members.get(of.index());
        list.map(|list| list[rank].as_slice())
            .ok_or_else(|| Malformed("no such communicator".to_owned()))
    }

    /// The lengths of a buffer's allocations on a rank: one, or as many as the array has.
    pub(crate) fn lengths(&self, rank: usize, region: &Region) -> Result<&[i64], Malformed> {
        let lengths = self.lengths[rank].get(region.buffer.index());
        lengths.map(Vec::as_slice).ok_or_else(|| Malformed("no such buffer".to_owned()))
    }

    /// All lengths, as the plan says.
    pub(crate) fn said(&self) -> impl Iterator<Item = (usize, i64)> {
        let each = self.lengths.iter().flat_map(|of_rank| of_rank.iter().enumerate());
        each.flat_map(|(buffer, lengths)| lengths.iter().map(move |&len| (buffer, len)))
    }

    /// All allocations of a rank: buffer, place in the array, length.
    pub(crate) fn allocations(&self, rank: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        self.lengths[rank].iter().enumerate().flat_map(|(buffer, lengths)| {
            let sized = lengths.iter().enumerate();
            sized.map(move |(at, &len)| (buffer, at, usize::try_from(len).unwrap_or(0)))
        })
    }

    /// Where the peer of the scope's rank is.
    pub(crate) fn peer(&self, scope: Scope<'_>, peer: &Peer) -> Result<Where, Malformed> {
        let hops = match peer {
            Peer::Rank(number) => {
                let number = scope.number(number)?;
                let there = usize::try_from(number).ok().filter(|&rank| rank < self.ranks);
                return Ok(there.map_or(Where::Outside(number), Where::Rank));
            }
            Peer::Cases(cases) => {
                let holds = scope.holds(&cases.condition)?;
                return self.peer(scope, if holds { &cases.then } else { &cases.otherwise });
            }
            Peer::Shift(hops) => hops,
        };
        let rank = scope.rank.ok_or_else(|| Malformed("a peer of no rank".to_owned()))?;
        let mut place = self.coordinates[rank].clone();
        let mut absent = false;
        for hop in hops {
            let axis = hop.axis.index();
            if axis >= place.len() {
                return Err(Malformed("no such axis".to_owned()));
            }
            let to = place[axis] + scope.number(&hop.by)?;
            let extent = self.world.extents[axis];
            absent |= !hop.wrap && !(0..extent).contains(&to);
            place[axis] = to.rem_euclid(extent);
        }
        let number = place.iter().zip(&self.world.extents).fold(0, |sum, (at, of)| sum * of + at);
        Ok(if absent { Where::Absent } else { Where::Rank(number as usize) })
    }
}

fn place(rank: usize, extents: &[i64]) -> Vec<i64> {
    let mut left = rank as i64;
    let mut place = vec![0; extents.len()];
    for (at, extent) in place.iter_mut().zip(extents).rev() {
        *at = left % extent;
        left /= extent;
    }
    place
}
