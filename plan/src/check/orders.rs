//! What is surely before what, over all ranks and several runs.

use std::cell::RefCell;
use std::collections::BinaryHeap;

use typed_nccl_match::Graph;

use super::instance::Instance;
use super::links::Links;
use super::local::{Clocks, Local, end, start};
use crate::program::Budget;

/// So many edges are as much work as writing out a unit.
const EDGES: u64 = 16;

/// The *orders* relation of the model.
pub(crate) struct Orders {
    pub(crate) clocks: Clocks,
    /// Against the edges: what is before a node.
    back: Graph,
    /// The place of each node in an order that all edges follow.
    places: Vec<u32>,
    pub(crate) units: u32,
    /// The rank of each unit of a run.
    ranks: Vec<u32>,
    streams: Vec<u16>,
    /// The streams that each rank uses, one bit each.
    used: Vec<u64>,
    seen: RefCell<Seen>,
}

/// Which nodes a search has seen: those that bear its number.
#[derive(Default)]
struct Seen {
    nodes: Vec<u32>,
    turn: u32,
}

impl Seen {
    /// Nothing is seen again.
    fn next(&mut self, nodes: usize) -> (&mut [u32], u32) {
        if self.nodes.len() != nodes || self.turn == u32::MAX {
            self.nodes = vec![0; nodes];
            self.turn = 0;
        }
        self.turn += 1;
        (&mut self.nodes, self.turn)
    }
}

impl Orders {
    pub(crate) fn new(instance: &Instance<'_>, links: &Links, runs: usize) -> Self {
        let program = instance.program;
        let units = program.units.len() as u32;
        let local = Local::new(program, runs);
        let clocks = Clocks::new(program, &local, runs);
        let nodes = 2 * local.len() + links.collectives.len() * runs;
        let each = |edge: &mut dyn FnMut(u32, u32)| {
            local.edges(edge);
            let mut hub = 2 * local.len() as u32;
            for run in 0..runs as u32 {
                let of = |unit: u32| run * units + unit;
                let unit = |op: u32| of(program.ops[op as usize].unit);
                for message in &links.messages {
                    let (send, receive) = (unit(message.send), unit(message.receive));
                    if send != receive {
                        edge(start(send), end(receive));
                    }
                }
                for meeting in &links.collectives {
                    for (at, &member) in (0..).zip(&meeting.members) {
                        let is_root = meeting.root == Some(at);
                        let spec = meeting.kind.spec();
                        if spec.send.is_on(is_root) {
                            edge(start(unit(member)), hub);
                        }
                        if spec.recv.is_on(is_root) {
                            edge(hub, end(unit(member)));
                        }
                    }
                    hub += 1;
                }
                for raised in &links.signals.raised {
                    edge(start(of(raised.raise_unit)), end(of(raised.wait_unit)));
                }
            }
        };
        // Sorted against the edges, the last comes first.
        let back = Graph::new(nodes, |edge| each(&mut |from, to| edge(to, from)));
        let mut places = vec![0; nodes];
        for (place, &node) in (0..).zip(back.sorted().iter().rev()) {
            places[node as usize] = place;
        }
        let ranks = program.units.iter().map(|unit| unit.rank).collect();
        let streams = program.units.iter().map(|unit| unit.stream).collect();
        let mut used = vec![0; program.ranks()];
        for unit in &program.units {
            used[unit.rank as usize] |= 1 << unit.stream;
        }
        Self { clocks, back, places, units, ranks, streams, used, seen: RefCell::default() }
    }

    /// Whether `first` has surely ended when `target` starts. `None` where looking took too long.
    pub(crate) fn ended(&self, target: u32, first: u32, budget: &mut Budget) -> Option<bool> {
        self.reaches(start(target), first, budget)
    }

    /// For each stream of a rank, the place of the last unit that has surely ended when `target`
    /// starts, or 0. `None` if the search takes too long.
    pub(crate) fn frontier(&self, target: u32, rank: u32, budget: &mut Budget) -> Option<Vec<u32>> {
        let units = self.units_in_all();
        let of = |unit: u32| (unit % self.units) as usize;
        let mut frontier = vec![0; self.clocks.streams()];
        let mut left = self.used[rank as usize];
        self.search(start(target), budget, |_, node| {
            let unit = node / 2;
            if unit < units && node % 2 == 1 && self.ranks[of(unit)] == rank {
                // The first one that is met on a stream is its last.
                let stream = usize::from(self.streams[of(unit)]);
                frontier[stream] = frontier[stream].max(self.clocks.place(unit));
                left &= !(1 << stream);
            }
            left != 0
        })?;
        Some(frontier)
    }

    /// Whether `first` has surely ended when `target` ends. `None` if the search takes too long.
    pub(crate) fn ended_by(&self, target: u32, first: u32, budget: &mut Budget) -> Option<bool> {
        self.reaches(end(target), first, budget)
    }

    fn reaches(&self, node: u32, first: u32, budget: &mut Budget) -> Option<bool> {
        let wanted = self.places[end(first) as usize];
        let mut found = false;
        // The latest nodes come first: what is earlier than `first` is not asked.
        self.search(node, budget, |place, node| {
            found = node == end(first);
            place > wanted
        })?;
        Some(found)
    }

    /// Whether a unit of a rank has surely started in a run when `target` starts. `None` if the
    /// search takes too long.
    pub(crate) fn begun(
        &self,
        target: u32,
        (rank, run): (u32, u32),
        budget: &mut Budget,
    ) -> Option<bool> {
        let units = self.units_in_all();
        let mut found = false;
        self.search(start(target), budget, |_, node| {
            let unit = node / 2;
            found = unit < units
                && unit / self.units >= run
                && self.ranks[(unit % self.units) as usize] == rank;
            !found
        })?;
        Some(found)
    }

    /// Visits a node and everything before it, the latest first, while `goes_on` holds. `None` if
    /// that takes too long.
    fn search(
        &self,
        node: u32,
        budget: &mut Budget,
        mut goes_on: impl FnMut(u32, u32) -> bool,
    ) -> Option<()> {
        let mut seen = self.seen.borrow_mut();
        let (seen, turn) = seen.next(self.places.len());
        let (mut looked, mut open) = (0, BinaryHeap::new());
        open.push((self.places[node as usize], node));
        while let Some((place, node)) = open.pop()
            && goes_on(place, node)
        {
            let before = self.back.after(node);
            looked += 1 + before.len() as u64;
            if !budget.take(looked / EDGES) {
                return None;
            }
            looked %= EDGES;
            for &earlier in before {
                if std::mem::replace(&mut seen[earlier as usize], turn) != turn {
                    open.push((self.places[earlier as usize], earlier));
                }
            }
        }
        Some(())
    }

    fn units_in_all(&self) -> u32 {
        self.clocks.len() as u32
    }
}
