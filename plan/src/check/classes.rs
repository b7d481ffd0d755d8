//! Deadlock for every number of ranks: one rank stands for all that lie inside.
//!
//! The events of one rank, with edges that say how far away their other end is, are a quotient of the events
//! of all ranks. A circuit of all ranks becomes a circuit of the quotient whose distances sum up to nothing,
//! along axes without ends; around a ring every circuit of the quotient is one, walked often enough. So
//! there is no deadlock where the quotient has no circuit, or none that could close.

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
}

/// An edge of the quotient: where to, how far along each large axis, and whether any distance will do.
#[derive(Clone)]
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
            add(2 * unit, 2 * unit + 1, none.clone(), false);
            for &earlier in local.before(unit) {
                add(2 * earlier + 1, 2 * unit, none.clone(), false);
            }
        }
    }
    let rank = |unit: u32| program.units[unit as usize].rank;
    for message in &links.messages {
        if rep.is(rank(message.receive_unit)) && message.send_unit != message.receive_unit {
            let by = rep.distance(message.send_op)?;
            let back: Vec<i64> = by.iter().map(|by| -by).collect();
            let send = rep.of(message.send_unit)?;
            add(2 * send, 2 * message.receive_unit + 1, by, false);
            add(2 * message.receive_unit, 2 * send + 1, back, false);
        }
    }
    for raised in &links.signals.raised {
        if rep.is(rank(raised.wait_unit)) {
            let by = rep.distance_between(raised.raise_unit, raised.wait_unit)?;
            add(2 * rep.of(raised.raise_unit)?, 2 * raised.wait_unit + 1, by, false);
        }
    }
    if with_credit {
        for &(wait, raise) in &links.signals.credits {
            if rep.is(rank(wait)) {
                let back = rep.distance_between(raise, wait)?.iter().map(|by| -by).collect();
                add(2 * wait + 1, 2 * rep.of(raise)? + 1, back, false);
            }
        }
    }
    for (hub, meeting) in (2 * units as u32..).zip(&links.collectives) {
        let crosses = rep.crosses(meeting.members.iter().map(|(unit, _)| rank(*unit)));
        for &(unit, _) in meeting.members.iter().filter(|(unit, _)| rep.is(rank(*unit))) {
            add(2 * unit, hub, none.clone(), crosses);
            add(hub, 2 * unit + 1, none.clone(), crosses);
        }
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

    fn is(&self, rank: u32) -> bool {
        self.larges.iter().all(|large| self.coordinate(rank, large.axis) == large.middle)
    }

    /// The unit of the middle that stands for one of another rank: both run the same statements.
    fn of(&self, unit: u32) -> Option<u32> {
        let program = self.program;
        let of = &program.units[unit as usize];
        let mut rank = of.rank as usize;
        for large in self.larges {
            let axis = crate::ir::AxisId(large.axis as u32);
            let by = large.middle - self.coordinate(rank as u32, large.axis);
            rank = program.layout.shift(rank, axis, by, false)?;
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
    let mut place = std::collections::HashMap::new();
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
    let open: Vec<usize> = (0..larges.len()).filter(|&at| !larges[at].wraps).collect();
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
