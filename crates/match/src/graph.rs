//! Graphs of events: what has to happen before what.

use std::collections::HashMap;

use super::way;

/// A graph in rows: for every node, the nodes that its edges lead to.
#[derive(Debug)]
pub struct Graph {
    begins: Vec<u32>,
    edges: Vec<u32>,
}

impl Graph {
    /// The graph of the edges that `each` gives, the same ones each time that it is called.
    pub fn new(nodes: usize, mut each: impl FnMut(&mut dyn FnMut(u32, u32))) -> Self {
        // Slices: where nothing is inlined, as in macros, an index into a vector is a call.
        let mut begins = vec![0_u32; nodes + 1];
        let counts = begins.as_mut_slice();
        each(&mut |from, _| counts[from as usize + 1] += 1);
        let mut sum = 0;
        for count in counts.iter_mut() {
            sum += *count;
            *count = sum;
        }
        let mut edges = vec![0; sum as usize];
        let mut next = begins.clone();
        let (slots, places) = (next.as_mut_slice(), edges.as_mut_slice());
        each(&mut |from, to| {
            let slot = &mut slots[from as usize];
            places[*slot as usize] = to;
            *slot += 1;
        });
        Self { begins, edges }
    }

    fn nodes(&self) -> usize {
        self.begins.len() - 1
    }

    /// Where a node's edges lead.
    #[inline]
    pub fn after(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.edges[self.begins[node] as usize..self.begins[node + 1] as usize]
    }

    /// The nodes in an order that every edge follows; those on circuits, and after them, are
    /// missing.
    pub fn sorted(&self) -> Vec<u32> {
        let nodes = self.nodes();
        let (begins, edges) = (self.begins.as_slice(), self.edges.as_slice());
        let mut counts = vec![0_u32; nodes];
        let waits = counts.as_mut_slice();
        for &to in edges {
            waits[to as usize] += 1;
        }
        let mut sorted = vec![0_u32; nodes];
        let ready = sorted.as_mut_slice();
        let mut found = 0;
        for (node, &waits) in (0..).zip(&*waits) {
            if waits == 0 {
                ready[found] = node;
                found += 1;
            }
        }
        let mut at = 0;
        while at < found {
            let node = ready[at] as usize;
            let (mut edge, end) = (begins[node] as usize, begins[node + 1] as usize);
            while edge < end {
                let to = edges[edge] as usize;
                waits[to] -= 1;
                if waits[to] == 0 {
                    ready[found] = to as u32;
                    found += 1;
                }
                edge += 1;
            }
            at += 1;
        }
        sorted.truncate(found);
        sorted
    }

    /// Of each node, whether [`sorted`](Self::sorted) leaves it out: it is on a circuit, or after
    /// one.
    pub fn left(&self) -> Vec<bool> {
        let mut left = vec![true; self.nodes()];
        for node in self.sorted() {
            left[node as usize] = false;
        }
        left
    }

    /// A short circuit, in the order of its edges; none if [`sorted`](Self::sorted) leaves nothing
    /// out.
    pub fn circuit(&self) -> Vec<u32> {
        let left = self.left();
        // From any node that is left, going back among those that are left ends in a circuit.
        let mut back = vec![u32::MAX; self.nodes()];
        for from in (0..self.nodes() as u32).filter(|&node| left[node as usize]) {
            for &to in self.after(from) {
                if left[to as usize] {
                    back[to as usize] = from;
                }
            }
        }
        let Some(start) = back.iter().position(|&from| from != u32::MAX) else {
            return Vec::new();
        };
        let circle = way(start as u32, |node| Some(((), back[node as usize]))).steps;
        let circuit: Vec<u32> = circle.into_iter().rev().map(|(node, ())| node).collect();
        // A shorter one through one of its nodes, if there is one.
        let mut best = circuit.clone();
        for &through in circuit.iter().take(64) {
            if let Some(shorter) = self.shortest(through, &left, best.len()) {
                best = shorter;
            }
        }
        best
    }

    /// The shortest circuit through a node among those that are left, if it is shorter than `than`.
    fn shortest(&self, through: u32, left: &[bool], than: usize) -> Option<Vec<u32>> {
        let mut from = HashMap::new();
        let mut edge = vec![through];
        for length in 1..than {
            let mut next = Vec::new();
            for &node in &edge {
                for &to in self.after(node) {
                    if to == through {
                        let mut circuit = vec![node];
                        let mut at = node;
                        while at != through {
                            at = from[&at];
                            circuit.push(at);
                        }
                        circuit.reverse();
                        debug_assert_eq!(circuit.len(), length);
                        return Some(circuit);
                    }
                    if left[to as usize] && !from.contains_key(&to) {
                        from.insert(to, node);
                        next.push(to);
                    }
                }
            }
            edge = next;
        }
        None
    }
}
