//! A rank: plays programs on the library.

use std::thread;
use std::time::Duration;

use typed_nccl::{Buffer, CommConfig, Communicator, Mark, Result, Seat, SignalSlot, Sum};

use super::call;
use super::calm::calm;
use super::device::{self, Dev, mixed, scaled, split};
use super::model::{fresh, own};
use super::step::{BUFFERS, COMMS, CONTEXTS, SIGNALS, STREAMS, Shape, Step, WINDOWS};
use super::store::{Comm, Queue, Store};

/// A rank waits for the oldest of its marks when it has more than this.
const MARKS: usize = 5;

pub(crate) struct Rank {
    pub(crate) index: usize,
    pub(crate) shape: Shape,
    pub(crate) comms: Vec<Option<Comm>>,
    pub(crate) streams: Vec<Queue>,
    pub(crate) stores: Vec<Store>,
    /// The operand of fences.
    pub(crate) tick: Buffer<u32, Dev>,
    /// By communicator, context and signal.
    pub(crate) slots: Vec<Vec<Vec<SignalSlot>>>,
    /// Whether only the program's own failures are allowed.
    pub(crate) strict: bool,
    pub(crate) marks: Vec<Mark<Dev>>,
    pub(crate) device: Dev,
}

/// The seats of each rank, one for each communicator.
pub(crate) fn seats(ranks: usize) -> Vec<Vec<Seat>> {
    let mut all: Vec<Vec<Seat>> = (0..ranks).map(|_| Vec::new()).collect();
    for _ in 0..COMMS {
        for (seats, seat) in all.iter_mut().zip(Seat::local(ranks)) {
            seats.push(seat);
        }
    }
    all
}

/// Number 0 is the communicator's own.
pub(crate) fn queue<'q>(comm: &'q Comm, streams: &'q [Queue], index: usize) -> &'q Queue {
    if index == 0 { comm.stream() } else { &streams[index] }
}

impl Rank {
    pub(crate) fn new(seats: Vec<Seat>, shape: Shape, deadline: Duration) -> Result<Self> {
        let index = seats[0].rank().index();
        let device = device::open(index)?;
        let config = CommConfig::builder().deadline(deadline).contexts(CONTEXTS).signals(SIGNALS);
        let config = config.build();
        let connect = |seat| {
            let comm = Communicator::builder().seat(seat).device(device.clone());
            comm.config(config.clone()).build().connect()
        };
        let mut comms = seats.into_iter().map(connect).collect::<Result<Vec<Comm>>>()?;
        let buffer = |buffer| Ok(Store::Buffer(device.from_slice(&fresh(shape, index, buffer))?));
        let mut stores = (0..BUFFERS).map(buffer).collect::<Result<Vec<_>>>()?;
        for comm in &mut comms {
            for _ in 0..WINDOWS {
                stores.push(Store::Window(comm.window(shape.size())?));
            }
        }
        let slots = |comm: &Comm| -> Result<Vec<Vec<SignalSlot>>> {
            let signals = |at| (0..SIGNALS).map(|signal| comm.signal_in(at, signal)).collect();
            (0..CONTEXTS).map(signals).collect()
        };
        Ok(Self {
            index,
            shape,
            slots: comms.iter().map(slots).collect::<Result<_>>()?,
            streams: (0..STREAMS).map(|_| device.stream()).collect::<Result<_>>()?,
            tick: device.zeros(1)?,
            comms: comms.into_iter().map(Some).collect(),
            stores,
            strict: true,
            marks: Vec::new(),
            device,
        })
    }

    pub(crate) fn slot(&self, comm: usize, slot: (u32, u32)) -> SignalSlot {
        self.slots[comm][slot.0 as usize][slot.1 as usize]
    }

    /// Plays a step; `expected` is the contents of a store that it reads.
    pub(crate) fn step(&mut self, step: &Step, expected: Option<&[u32]>) -> Result<()> {
        let ranks = self.shape.ranks;
        match *step {
            Step::Collective { comm, stream, what } => {
                let comm = self.comms[comm].as_ref().expect("alive");
                let on = comm.on(queue(comm, &self.streams, stream));
                let [from, to] = two(&mut self.stores, what.from.store, what.to.store);
                let end = what.from.start + what.kind.sends(what.len, ranks);
                let send = from.slice(what.from.start..end);
                let end = what.to.start + what.kind.receives(what.len, ranks);
                let mut recv = to.slice_mut(what.to.start..end);
                call::collective(&on, what.kind, &send, &mut recv, self.index)
            }
            Step::InPlace { comm, stream, what } => {
                let comm = self.comms[comm].as_ref().expect("alive");
                let on = comm.on(queue(comm, &self.streams, stream));
                let end = what.at.start + what.extent(self.index, ranks);
                let mut all = self.stores[what.at.store].slice_mut(what.at.start..end);
                call::in_place(&on, what.kind, &mut all)
            }
            Step::Round(ref round) => self.round(round),
            Step::AllToAllV { comm, from, to, ref counts } => {
                let comm = self.comms[comm].as_mut().expect("alive");
                let splits = comm.splits(&counts[self.index])?;
                let [from, to] = two(&mut self.stores, from, to);
                let send = from.slice(0..splits.send_len());
                comm.all_to_all_v(send, to.slice_mut(0..splits.recv_len()), &splits)
            }
            Step::AllGatherV { comm, from, to, ref blocks } => {
                let comm = self.comms[comm].as_mut().expect("alive");
                let declared = comm.blocks(blocks[self.index])?;
                let [from, to] = two(&mut self.stores, from, to);
                let send = from.slice(0..blocks[self.index]);
                comm.all_gather_v(send, to.slice_mut(0..blocks.iter().sum()), &declared)
            }
            Step::ReduceScatterV { comm, ref blocks } => self.reduce_scatter_v(comm, blocks),
            Step::Launch { stream, from, to } => {
                let [from, to] = two(&mut self.stores, from, to);
                let (from, mut to) = (from.slice(0..self.shape.size()), to.all_mut());
                mixed(&self.streams[stream], &from, &mut to)
            }
            Step::LaunchSplit { stream, store, mid } => {
                let (mut left, mut right) = self.stores[store].all_mut().split_at_mut(mid);
                split(&self.streams[stream], &mut left, &mut right)
            }
            Step::Away { store } => self.away(store),
            Step::Write { store, value } => {
                let values = vec![value ^ self.index as u32; self.shape.size()];
                calm(|| self.stores[store].all_mut().copy_from(&values))
            }
            Step::Read { store } => {
                let found = calm(|| self.stores[store].to_vec())?;
                if let Some(expected) = expected {
                    assert!(found == expected, "rank {}: store {store} differs", self.index);
                }
                Ok(())
            }
            Step::Renew { buffer } => {
                let values = fresh(self.shape, self.index, buffer);
                self.stores[buffer] = Store::Buffer(self.device.from_slice(&values)?);
                Ok(())
            }
            Step::NewStream { stream } => {
                self.streams[stream] = self.device.stream()?;
                Ok(())
            }
            Step::Wait { stream, on } => {
                let mark = self.streams[on].mark()?;
                self.streams[stream].wait_for(&mark)?;
                self.marks.push(mark);
                if self.marks.len() > MARKS {
                    let comm = self.comms[0].as_ref().expect("alive");
                    let mark = self.marks.remove(0);
                    calm(|| comm.wait(&mark))?;
                }
                Ok(())
            }
            Step::Sync { stream } => calm(|| self.streams[stream].sync()),
            Step::Refused { comm, stream } => {
                let comm = self.comms[comm].as_ref().expect("alive");
                let on = comm.on(queue(comm, &self.streams, stream));
                let size = self.shape.size();
                let mut past = self.stores[0].slice_mut(size..size + 1);
                match on.all_reduce_in_place(&mut past, Sum) {
                    Err(error) if error.is_refusal() => Ok(()),
                    outcome => outcome,
                }
            }
        }
    }

    /// Waits for everything.
    pub(crate) fn sync(&self) -> Result<()> {
        self.comms.iter().flatten().try_for_each(|comm| comm.sync(comm.stream()))?;
        self.streams.iter().try_for_each(typed_nccl::Stream::sync)
    }

    fn reduce_scatter_v(&mut self, comm: usize, blocks: &[usize]) -> Result<()> {
        let comm = self.comms[comm].as_mut().expect("alive");
        let declared = comm.blocks(blocks[self.index])?;
        let len = blocks.iter().sum();
        let send = self.device.from_slice(&own(self.index, len))?;
        let mut recv = self.device.zeros::<u32>(blocks[self.index])?;
        comm.reduce_scatter_v(&send, &mut recv, Sum, &declared)?;
        let found = calm(|| recv.to_vec())?;
        if self.strict {
            let start: usize = blocks[..self.index].iter().sum();
            let all: Vec<Vec<u32>> = (0..self.shape.ranks).map(|rank| own(rank, len)).collect();
            let sum = |i: usize| all.iter().fold(0, |sum: u32, own| sum.wrapping_add(own[i]));
            let expected = (start..start + blocks[self.index]).map(sum);
            assert!(found.into_iter().eq(expected), "rank {}: its block differs", self.index);
        }
        Ok(())
    }

    fn away(&mut self, index: usize) -> Result<()> {
        let nothing = Store::Buffer(self.device.zeros(0)?);
        let mut store = std::mem::replace(&mut self.stores[index], nothing);
        let device = self.device.clone();
        let used = thread::spawn(move || {
            let stream = device.stream();
            let outcome = stream.and_then(|stream| scaled(&stream, &mut store.all_mut()));
            (store, outcome)
        });
        let (store, outcome) = used.join().expect("no panic");
        self.stores[index] = store;
        outcome
    }
}

fn two(stores: &mut [Store], from: usize, to: usize) -> [&mut Store; 2] {
    stores.get_disjoint_mut([from, to]).expect("two stores")
}
