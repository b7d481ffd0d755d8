//! What a block's numbers of channels and buffers stand for.

use std::collections::HashMap;

use super::schema::{BufferType, ChannelType, Gpu, Threadblock};
use crate::program::{Program, Signal};

/// All ranks' channels, and the counters and proxies behind them.
///
/// The k-th channel of a type from one rank to another is connected to the k-th one back.
pub(super) struct Channels {
    ranks: Vec<Rank>,
    signals: HashMap<(ChannelType, u32, u32, u32), u32>,
    proxies: HashMap<(u32, u32), u32>,
}

#[derive(Default)]
struct Rank {
    /// Of each channel of a type, the other rank, and how many to it come before.
    memory: Vec<(u32, u32)>,
    port: Vec<(u32, u32)>,
    switch: Vec<(BufferType, Vec<u32>)>,
    buffers: Vec<(u32, BufferType)>,
}

/// A channel of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    pub(super) kind: ChannelType,
    /// Its number among the rank's.
    number: u32,
    peer: u32,
    same: u32,
}

impl Channels {
    /// None if a rank is connected to one that does not exist.
    pub(super) fn new(gpus: &[Gpu<'_>]) -> Option<Self> {
        let count = gpus.len() as u32;
        let mut ranks = Vec::new();
        for gpu in gpus {
            let mut rank = Rank::default();
            for channel in &gpu.channels {
                let list = match channel.channel_type {
                    ChannelType::Memory => &mut rank.memory,
                    ChannelType::Port => &mut rank.port,
                    ChannelType::Switch | ChannelType::None => {
                        let buffer = channel.buffer_type.unwrap_or(BufferType::Input);
                        for group in &channel.rank_groups {
                            if group.ranks.iter().any(|rank| *rank >= count) {
                                return None;
                            }
                            rank.switch.push((buffer, group.ranks.clone()));
                        }
                        continue;
                    }
                };
                let mut before: HashMap<u32, u32> = HashMap::new();
                for &(peer, _) in list.iter() {
                    *before.entry(peer).or_default() += 1;
                }
                for &peer in &channel.connected_to {
                    if peer >= count {
                        return None;
                    }
                    let same = before.entry(peer).or_default();
                    list.push((peer, *same));
                    *same += 1;
                }
            }
            for buffer in &gpu.remote_buffers {
                if buffer.rank >= count {
                    return None;
                }
                rank.buffers.push((buffer.rank, buffer.buffer));
            }
            ranks.push(rank);
        }
        Some(Self { ranks, signals: HashMap::new(), proxies: HashMap::new() })
    }

    /// A block's channel of a type by its number there.
    pub(super) fn channel(
        &self,
        rank: u32,
        block: &Threadblock<'_>,
        kind: ChannelType,
        id: u32,
    ) -> Option<Channel> {
        let number = ids(block, kind).nth(id as usize)?;
        let of = &self.ranks[rank as usize];
        let list = if kind == ChannelType::Port { &of.port } else { &of.memory };
        let &(peer, same) = list.get(number as usize)?;
        Some(Channel { kind, number, peer, same })
    }

    /// A block's switch channel: its buffer and its ranks.
    pub(super) fn switch(
        &self,
        rank: u32,
        block: &Threadblock<'_>,
        id: u32,
    ) -> Option<(BufferType, &[u32])> {
        let number = ids(block, ChannelType::Switch).nth(id as usize)?;
        let (buffer, ranks) = self.ranks[rank as usize].switch.get(number as usize)?;
        Some((*buffer, ranks))
    }

    /// Another rank's buffer by the block's number for it.
    pub(super) fn buffer(
        &self,
        rank: u32,
        block: &Threadblock<'_>,
        kind: ChannelType,
        id: u32,
    ) -> Option<(u32, BufferType)> {
        let refs = block.remote_buffer_refs.iter();
        let mut ids = refs
            .filter(|refs| refs.access_channel_type == kind)
            .flat_map(|refs| refs.remote_buffer_ids.iter());
        let number = ids.nth(id as usize)?;
        self.ranks[rank as usize].buffers.get(*number as usize).copied()
    }

    /// The counter that a rank raises over a channel, or waits for.
    pub(super) fn signal(
        &mut self,
        program: &mut Program,
        rank: u32,
        channel: Channel,
        raises: bool,
    ) -> u32 {
        let Channel { kind, peer, same, .. } = channel;
        let (from, to) = if raises { (rank, peer) } else { (peer, rank) };
        *self.signals.entry((kind, from, to, same)).or_insert_with(|| {
            let name = format!("{} channel {same} between them", kind.name());
            program.signals.push(Signal { from, to, name });
            (program.signals.len() - 1) as u32
        })
    }

    /// The queue of a port channel.
    pub(super) fn proxy(&mut self, program: &mut Program, rank: u32, channel: Channel) -> u32 {
        *self.proxies.entry((rank, channel.number)).or_insert_with(|| {
            program.proxies.push(rank);
            (program.proxies.len() - 1) as u32
        })
    }
}

fn ids<'a>(block: &'a Threadblock<'_>, kind: ChannelType) -> impl Iterator<Item = u32> + 'a {
    let lists = block.channels.iter().filter(move |list| list.channel_type == kind);
    lists.flat_map(|list| list.channel_ids.iter().copied())
}
