//! Deadlock for every number of ranks: one rank stands for all that lie inside, or one for each class of them.
//!
//! The events of one rank, with edges that say how far away their other end is, are a quotient of the events
//! of all ranks. A circuit of all ranks becomes a circuit of the quotient whose distances sum up to nothing,
//! along axes without ends; around a ring every circuit of the quotient is one, walked often enough. So
//! there is no deadlock where the quotient has no circuit, or none that could close.
//!
//! Where conditions tell ranks apart, each rank near an end stands for itself, as far from that end as it is,
//! and one rank in the middle for all others of its remainder. The instance is so large that whatever
//! neighbours a larger one has, it has too; so each edge of a larger one is an edge between the same
//! representatives here, equally far. A distance is the difference of two coordinates then, and a circuit of
//! all ranks sums up to nothing, around a ring too: only an edge across the seam, from one end to the other,
//! is of no known length, and what goes round through it is not decided.

use std::collections::HashMap;

use super::guards::Classes;
use super::instance::Instance;
use super::links::Links;
use super::local::Local;
use crate::program::{NONE, Program};

/// An axis of which only a few ranks are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Large {
    pub(crate) axis: usize,
    /// The coordinate of the rank that stands for the others.
    pub(crate) middle: i64,
    /// Whether peers wrap around: then distances along it close.
    pub(crate) wraps: bool,
    /// Where conditions tell ranks apart: how many at each end stand for themselves, and by which remainder
    /// the others differ.
    pub(crate) ends: Option<Classes>,
}

impl Large {
    /// The coordinate that stands for this one.
    fn stands_for(&self, coordinate: i64, extent: i64) -> i64 {
        match self.ends {
            None => self.middle,
            Some(Classes { near, every }) if (near..extent - near).contains(&coordinate) => {
                near + (coordinate - near) % every
            }
            Some(_) => coordinate,
        }
    }
}

/// An edge of the quotient: where to, how far along each large axis, and whether any distance will do.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    to: u32,
    by: Vec<i64>,
    anywhere: bool,
}

/// Whether no number of ranks along the large axes has a deadlock. `false` says nothing.
pub(crate) fn never_waits_in_a_circle(
    instance: &Instance<'_>,
    links: &Links,
    larges: &[Large],
    with_credit: bool,
) -> bool {
    match quotient(instance.program, links, larges, with_credit) {
        None => false,
        Some(edges) => {
            components(&edges).iter().all(|component| cannot_close(&edges, component, larges))
        }
    }
}

fn quotient(
    program: &Program,
    links: &Links,
    larges: &[Large],
    with_credit: bool,
) -> Option<Vec<Vec<Edge>>> {
    let units = program.units.len();
    let local = Local::new(program, 1);
    let rep = Representatives { program, larges };
    let hubs = links.collectives.len();
    let mut edges: Vec<Vec<Edge>> = vec![Vec::new(); 2 * units + hubs];
    let none = vec![0; larges.len()];
    let mut add = |from: u32, to: u32, by: Vec<i64>, anywhere: bool| {
        edges[from as usize].push(Edge { to, by, anywhere });
    };
    for (unit, of) in (0..).zip(&program.units) {
        if rep.is(of.rank) {
            let own = rep.of(unit)?;
            add(2 * own, 2 * own + 1, none.clone(), false);
            for &earlier in local.before(unit) {
                add(2 * rep.of(earlier)? + 1, 2 * own, none.clone(), false);
            }
        }
    }
    let rank = |unit: u32| program.units[unit as usize].rank;
    for message in &links.messages {
        if rep.is(rank(message.receive_unit)) && message.send_unit != message.receive_unit {
            let along = rep.distance(message.send_op)?;
            let (by, seam) = rep.between(message.send_unit, message.receive_unit, along);
            let back: Vec<i64> = by.iter().map(|by| -by).collect();
            let (send, receive) = (rep.of(message.send_unit)?, rep.of(message.receive_unit)?);
            add(2 * send, 2 * receive + 1, by, seam);
            add(2 * receive, 2 * send + 1, back, seam);
        }
    }
    for raised in &links.signals.raised {
        if rep.is(rank(raised.wait_unit)) {
            let along = rep.distance_between(raised.raise_unit, raised.wait_unit)?;
            let (by, seam) = rep.between(raised.raise_unit, raised.wait_unit, along);
            add(2 * rep.of(raised.raise_unit)?, 2 * rep.of(raised.wait_unit)? + 1, by, seam);
        }
    }
    if with_credit {
        for &(wait, raise) in &links.signals.credits {
            if rep.is(rank(wait)) {
                let (by, seam) = rep.between(raise, wait, rep.distance_between(raise, wait)?);
                let back = by.iter().map(|by| -by).collect();
                add(2 * rep.of(wait)? + 1, 2 * rep.of(raise)? + 1, back, seam);
            }
        }
    }
    // Where ranks stand for others, so do the meetings that they are in.
    let by_class = larges.iter().any(|large| large.ends.is_some());
    let mut meetings = HashMap::new();
    for (hub, meeting) in (2 * units as u32..).zip(&links.collectives).filter(|_| by_class) {
        meetings.extend(meeting.members.iter().map(|&(_, op)| (op, hub)));
    }
    for (hub, meeting) in (2 * units as u32..).zip(&links.collectives) {
        let crosses = rep.crosses(meeting.members.iter().map(|(unit, _)| rank(*unit)));
        for &(unit, op) in meeting.members.iter().filter(|(unit, _)| rep.is(rank(*unit))) {
            let own = rep.of(unit)?;
            let first_op = |unit: u32| program.units[unit as usize].first_op;
            let hub = match by_class {
                true => *meetings.get(&(first_op(own) + (op - first_op(unit))))?,
                false => hub,
            };
            add(2 * own, hub, none.clone(), crosses);
            add(hub, 2 * own + 1, none.clone(), crosses);
        }
    }
    for of in edges.iter_mut().filter(|_| by_class) {
        of.sort_unstable();
        of.dedup();
    }
    Some(edges)
}

struct Representatives<'a> {
    program: &'a Program,
    larges: &'a [Large],
}

impl Representatives<'_> {
    fn coordinate(&self, rank: u32, axis: usize) -> i64 {
        self.program.layout.coordinate(rank as usize, crate::ir::AxisId(axis as u32))
    }

    /// Whether a rank's edges are looked at: where classes are told apart, those of all ranks, since two
    /// neighbours of one class may be no representatives both.
    fn is(&self, rank: u32) -> bool {
        self.larges
            .iter()
            .all(|large| large.ends.is_some() || self.coordinate(rank, large.axis) == large.middle)
    }

    /// The unit that stands for one of another rank: both run the same statements.
    fn of(&self, unit: u32) -> Option<u32> {
        let program = self.program;
        let of = &program.units[unit as usize];
        let mut rank = of.rank as usize;
        for large in self.larges {
            let axis = crate::ir::AxisId(large.axis as u32);
            let (at, extent) =
                (self.coordinate(rank as u32, large.axis), program.layout.extents[large.axis]);
            let by = large.stands_for(at, extent) - at;
            rank = program.layout.shift(rank, axis, by, false)?;
        }
        if rank == of.rank as usize {
            return Some(unit);
        }
        let (theirs, own) = (program.of_rank(of.rank as usize), program.of_rank(rank));
        if theirs.len() != own.len() {
            return None;
        }
        let found = own.start + (unit as usize - theirs.start);
        let alike = &program.units[found];
        (alike.statement == of.statement && alike.ops == of.ops).then_some(found as u32)
    }

    /// How far a message goes, as it is written.
    fn distance(&self, op: u32) -> Option<Vec<i64>> {
        let shift = self.program.ops[op as usize].shift;
        (shift != NONE).then(|| self.along(shift))
    }

    fn along(&self, shift: u32) -> Vec<i64> {
        let hops = &self.program.shifts[shift as usize].hops;
        let along = |large: &Large| {
            let hops = hops.iter().filter(|(axis, ..)| *axis as usize == large.axis);
            hops.map(|(_, by, _)| *by).sum()
        };
        self.larges.iter().map(along).collect()
    }

    /// How far it is from one unit to another that is so far along the axes, and whether that is across the
    /// seam of a ring whose ends are told apart.
    fn between(&self, from: u32, to: u32, along: Vec<i64>) -> (Vec<i64>, bool) {
        let rank = |unit: u32| self.program.units[unit as usize].rank;
        let seam = self.larges.iter().zip(&along).any(|(large, along)| {
            let at = |unit: u32| self.coordinate(rank(unit), large.axis);
            large.ends.is_some() && at(to) - at(from) != *along
        });
        (along, seam)
    }

    /// How far a unit's signal goes that this wait consumes.
    fn distance_between(&self, raise: u32, wait: u32) -> Option<Vec<i64>> {
        let program = self.program;
        let target = program.units[wait as usize].rank;
        let ops = program.ops_of(&program.units[raise as usize]);
        let mut found =
            ops.iter().filter(|op| op.peer == target && op.kind.is_one_sided() && op.shift != NONE);
        let first = found.next()?;
        let by = self.along(first.shift);
        found.all(|other| self.along(other.shift) == by).then_some(by)
    }

    /// Whether ranks of several places along a large axis are among these.
    fn crosses(&self, mut ranks: impl Iterator<Item = u32> + Clone) -> bool {
        let all = ranks.clone();
        let Some(first) = ranks.next() else { return false };
        self.larges.iter().any(|large| {
            let at = self.coordinate(first, large.axis);
            all.clone().any(|rank| self.coordinate(rank, large.axis) != at)
        })
    }
}

/// The strongly connected components that have an edge inside: the only places where circuits are.
fn components(edges: &[Vec<Edge>]) -> Vec<Vec<u32>> {
    const NEW: u32 = u32::MAX;
    let mut index = vec![NEW; edges.len()];
    let mut low = vec![0; edges.len()];
    let mut open = vec![false; edges.len()];
    let (mut stack, mut found, mut next) = (Vec::new(), Vec::new(), 0);
    for root in 0..edges.len() as u32 {
        if index[root as usize] != NEW || edges[root as usize].is_empty() {
            continue;
        }
        let mut calls: Vec<(u32, usize)> = vec![(root, 0)];
        while let Some(&mut (node, ref mut at)) = calls.last_mut() {
            let node_at = node as usize;
            if *at == 0 && index[node_at] == NEW {
                index[node_at] = next;
                low[node_at] = next;
                next += 1;
                stack.push(node);
                open[node_at] = true;
            }
            if let Some(edge) = edges[node_at].get(*at) {
                *at += 1;
                let to = edge.to as usize;
                if index[to] == NEW {
                    calls.push((edge.to, 0));
                } else if open[to] {
                    low[node_at] = low[node_at].min(index[to]);
                }
                continue;
            }
            calls.pop();
            if let Some(&(parent, _)) = calls.last() {
                low[parent as usize] = low[parent as usize].min(low[node_at]);
            }
            if low[node_at] == index[node_at] {
                let mut component = Vec::new();
                while let Some(member) = stack.pop() {
                    open[member as usize] = false;
                    component.push(member);
                    if member == node {
                        break;
                    }
                }
                let itself = edges[node_at].iter().any(|edge| edge.to == node);
                if component.len() > 1 || itself {
                    found.push(component);
                }
            }
        }
    }
    found
}

/// Whether no circuit inside a component comes back to the rank where it began: along some direction, every
/// circuit goes forward.
fn cannot_close(edges: &[Vec<Edge>], component: &[u32], larges: &[Large]) -> bool {
    let mut place = HashMap::new();
    for (at, &node) in component.iter().enumerate() {
        place.insert(node, at);
    }
    let mut inside: Vec<(usize, usize, &Edge)> = Vec::new();
    for (&node, &at) in &place {
        for edge in &edges[node as usize] {
            if let Some(&to) = place.get(&edge.to) {
                inside.push((at, to, edge));
            }
        }
    }
    if inside.iter().any(|(.., edge)| edge.anywhere) {
        return false;
    }
    let has_ends = |large: &Large| !large.wraps || large.ends.is_some();
    let open: Vec<usize> = (0..larges.len()).filter(|&at| has_ends(&larges[at])).collect();
    let mut directions: Vec<Vec<(usize, i64)>> = Vec::new();
    for (i, &a) in open.iter().enumerate() {
        directions.extend([vec![(a, 1)], vec![(a, -1)]]);
        for &b in &open[i + 1..] {
            for (x, y) in [(1, 1), (1, -1), (-1, 1), (-1, -1)] {
                directions.push(vec![(a, x), (b, y)]);
            }
        }
    }
    directions.iter().any(|direction| {
        let along = |edge: &Edge| direction.iter().map(|&(at, sign)| sign * edge.by[at]).sum();
        let weights: Vec<(usize, usize, i64)> =
            inside.iter().map(|&(from, to, edge)| (from, to, along(edge))).collect();
        all_forward(component.len(), &weights)
    })
}

/// Whether every circuit has a sum above zero: with each edge a little shorter, none is negative.
fn all_forward(nodes: usize, edges: &[(usize, usize, i64)]) -> bool {
    let scale = nodes as i64 + 1;
    let mut distance = vec![0_i64; nodes];
    for _ in 0..=nodes {
        let mut changed = false;
        for &(from, to, by) in edges {
            let through = distance[from].saturating_add(by.saturating_mul(scale) - 1);
            if through < distance[to] {
                distance[to] = through;
                changed = true;
            }
        }
        if !changed {
            return true;
        }
    }
    false
}
