//! A graph of events: every unit has a start and an end, every collective a place where its members meet.

/// A graph in rows: for every node, the nodes that its edges lead to.
pub(crate) struct Graph {
    begins: Vec<u32>,
    edges: Vec<u32>,
}

/// The start of a unit, as a node.
pub(crate) fn start(unit: u32) -> u32 {
    2 * unit
}

/// The end of a unit, as a node.
pub(crate) fn end(unit: u32) -> u32 {
    2 * unit + 1
}

impl Graph {
    /// The graph of the edges that `each` gives, the same ones each time that it is called.
    pub(crate) fn new(nodes: usize, mut each: impl FnMut(&mut dyn FnMut(u32, u32))) -> Self {
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

    pub(crate) fn nodes(&self) -> usize {
        self.begins.len() - 1
    }

    /// Where a node's edges lead.
    pub(crate) fn after(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.edges[self.begins[node] as usize..self.begins[node + 1] as usize]
    }

    /// The nodes in an order that every edge follows; those on circuits, and after them, are missing.
    pub(crate) fn sorted(&self) -> Vec<u32> {
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

    /// A short circuit among the nodes that `sorted` left out, in the order of its edges.
    pub(crate) fn circuit(&self, sorted: &[u32]) -> Vec<u32> {
        let mut left = vec![true; self.nodes()];
        for &node in sorted {
            left[node as usize] = false;
        }
        // From any node that is left, going back among those that are left ends in a circuit.
        let mut back = vec![u32::MAX; self.nodes()];
        for from in (0..self.nodes() as u32).filter(|&node| left[node as usize]) {
            for &to in self.after(from) {
                if left[to as usize] {
                    back[to as usize] = from;
                }
            }
        }
        let Some(mut at) = (0..self.nodes() as u32).find(|&node| back[node as usize] != u32::MAX)
        else {
            return Vec::new();
        };
        let mut seen = vec![false; self.nodes()];
        while !std::mem::replace(&mut seen[at as usize], true) {
            at = back[at as usize];
        }
        let mut circuit = vec![at];
        let mut node = back[at as usize];
        while node != at {
            circuit.push(node);
            node = back[node as usize];
        }
        circuit.reverse();
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
        let mut from = std::collections::HashMap::new();
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
