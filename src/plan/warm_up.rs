//! Secretly collective set-up, done once during binding.
//!
//! NCCL connects ranks when they first need it, and a late rank blocks the others' host. So the
//! first operations of each kind run here, where all ranks are at the same point.

use typed_nccl_plan::lower::{Schedule, WarmUp};

use super::children::{Child, Children};
use super::local::{self, kind};
use crate::communicator::{CanEnqueue, State};
use crate::{Buffer, Communicator, Device, Result, Sum, World, record};

/// The memory of these operations: one element to send, and one for each peer.
///
/// It is allocated before the ranks agree for the last time, so that all of them fail if one has no
/// memory left.
pub(super) struct Memory<D: Device>(Vec<Buffer<f32, D>>);

impl<D: Device> Memory<D> {
    pub(super) fn new<W: World<Device = D>, S: State + CanEnqueue>(
        comm: &Communicator<W, S>,
        schedule: &Schedule,
    ) -> Result<Self> {
        let (ordinal, rank) = (comm.device().ordinal(), comm.rank().index());
        let needs = |one: &WarmUp| match one {
            WarmUp::Collectives(_) => 1,
            WarmUp::Connections { pairs, .. } => 1 + others(pairs, rank).count(),
            WarmUp::OneSided(_) => 0,
        };
        let most = schedule.warm_ups.iter().map(needs).max().unwrap_or(0);
        let one = |_| Buffer::alloc(ordinal, 1, kind(comm));
        Ok(Self((0..most).map(one).collect::<Result<_>>()?))
    }
}

/// The ranks that a rank is paired with.
fn others(pairs: &[(u32, u32)], rank: usize) -> impl Iterator<Item = usize> {
    let numbered = pairs.iter().map(|&(a, b)| (a as usize, b as usize));
    numbered.filter_map(move |(a, b)| match rank {
        _ if a == b => None,
        rank if a == rank => Some(b),
        rank if b == rank => Some(a),
        _ => None,
    })
}

pub(super) fn warm_up<W: World, S: State + CanEnqueue>(
    comm: &mut Communicator<W, S>,
    children: &mut Children<W>,
    schedule: &Schedule,
    Memory(mut memory): Memory<W::Device>,
    rank_in: impl Fn(usize, usize) -> usize,
) -> Result<()> {
    let _named = record::is_on().then(|| record::in_plan("warm-up"));
    for one in &schedule.warm_ups {
        match one {
            WarmUp::Collectives(among) => match &mut children[among.index()] {
                Child::Whole => collective(comm, &mut memory)?,
                Child::Part(child) => collective(child, &mut memory)?,
            },
            WarmUp::Connections { among, pairs } => {
                let others = others(pairs, comm.rank().index());
                let peers: Vec<_> = others.map(|other| rank_in(among.index(), other)).collect();
                match &mut children[among.index()] {
                    Child::Whole => connections(comm, &peers, &mut memory)?,
                    Child::Part(child) => connections(child, &peers, &mut memory)?,
                }
            }
            WarmUp::OneSided(_) => one_sided(comm)?,
        }
    }
    Ok(())
}

fn collective<W: World, S: State + CanEnqueue>(
    comm: &Communicator<W, S>,
    memory: &mut [Buffer<f32, W::Device>],
) -> Result<()> {
    memory.first_mut().map_or(Ok(()), |one| comm.all_reduce_in_place(one, Sum))
}

fn connections<W: World, S: State + CanEnqueue>(
    comm: &mut Communicator<W, S>,
    peers: &[usize],
    memory: &mut [Buffer<f32, W::Device>],
) -> Result<()> {
    if peers.is_empty() {
        return Ok(());
    }
    let registered = local::registered(comm, memory)?;
    let Some((out, into)) = memory.split_first_mut() else { return Ok(()) };
    comm.group(|group| {
        for (&peer, into) in peers.iter().zip(into) {
            group.send(&*out, peer)?;
            group.recv(into, peer)?;
        }
        Ok(())
    })?;
    registered.into_iter().try_for_each(|one| comm.deregister_buffer(one))
}

/// Signals around the ring. Without a window there are none yet; the first window sets them up.
fn one_sided<W: World, S: State + CanEnqueue>(comm: &Communicator<W, S>) -> Result<()> {
    if comm.size() == 1 || !comm.here().core.has_signals {
        return Ok(());
    }
    comm.signal(comm.ring(1))?;
    comm.wait_signal(comm.ring(-1))
}
