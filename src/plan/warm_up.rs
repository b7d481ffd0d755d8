//! Secretly collective set-up, done once during binding.
//!
//! NCCL connects ranks when they first need it, and a late rank blocks the others' host. So the
//! first operations of each kind run here, where all ranks are at the same point.

use typed_nccl_plan::lower::{Schedule, WarmUp};

use super::bound::{Child, Children};
use crate::communicator::{CanEnqueue, State};
use crate::{Communicator, Result, Sum, World, record};

pub(super) fn warm_up<W: World, S: State + CanEnqueue>(
    comm: &mut Communicator<W, S>,
    children: &mut Children<W>,
    schedule: &Schedule,
    rank_in: impl Fn(usize, usize) -> usize,
) -> Result<()> {
    let _named = record::is_on().then(|| record::in_plan("warm-up"));
    for one in &schedule.warm_ups {
        match one {
            WarmUp::Collectives(among) => match &mut children[among.index()] {
                Child::Whole => collective(comm)?,
                Child::Part(child) => collective(child)?,
            },
            WarmUp::Connections { among, pairs } => {
                let own = |rank: usize| {
                    let numbered = pairs.iter().map(|&(a, b)| (a as usize, b as usize));
                    let others = numbered.filter_map(move |(a, b)| match rank {
                        _ if a == b => None,
                        rank if a == rank => Some(b),
                        rank if b == rank => Some(a),
                        _ => None,
                    });
                    others.map(|other| rank_in(among.index(), other)).collect::<Vec<_>>()
                };
                let peers = own(comm.rank().index());
                match &mut children[among.index()] {
                    Child::Whole => connections(comm, &peers)?,
                    Child::Part(child) => connections(child, &peers)?,
                }
            }
            WarmUp::OneSided(_) => one_sided(comm)?,
        }
    }
    Ok(())
}

fn collective<W: World, S: State + CanEnqueue>(comm: &Communicator<W, S>) -> Result<()> {
    let mut one = crate::Device::zeros::<f32>(comm.device(), 1)?;
    comm.all_reduce_in_place(&mut one, Sum)
}

fn connections<W: World, S: State + CanEnqueue>(
    comm: &mut Communicator<W, S>,
    peers: &[usize],
) -> Result<()> {
    if peers.is_empty() {
        return Ok(());
    }
    let device = comm.device().clone();
    let out = crate::Device::zeros::<f32>(&device, 1)?;
    let mut into = Vec::with_capacity(peers.len());
    for _ in peers {
        into.push(crate::Device::zeros::<f32>(&device, 1)?);
    }
    comm.group(|group| {
        for (&peer, into) in peers.iter().zip(&mut into) {
            group.send(&out, peer)?;
            group.recv(into, peer)?;
        }
        Ok(())
    })
}

/// Signals around the ring. Without a window there are none yet; the first window sets them up.
fn one_sided<W: World, S: State + CanEnqueue>(comm: &Communicator<W, S>) -> Result<()> {
    if comm.size() == 1 || !comm.here().core.has_signals {
        return Ok(());
    }
    comm.signal(comm.ring(1))?;
    comm.wait_signal(comm.ring(-1))
}
