//! Small schedules in MSCCL's XML.

use std::fmt::Write as _;

#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) kind: &'static str,
    pub(crate) source: (char, i32),
    pub(crate) target: (char, i32),
    pub(crate) count: u32,
    pub(crate) awaits: (i32, i32),
    pub(crate) is_awaited: bool,
}

#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) send: i32,
    pub(crate) receive: i32,
    pub(crate) channel: u32,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone)]
pub(crate) struct Algo {
    pub(crate) collective: &'static str,
    pub(crate) protocol: &'static str,
    pub(crate) in_place: bool,
    pub(crate) chunks: usize,
    pub(crate) scratch: usize,
    pub(crate) ranks: Vec<Vec<Block>>,
}

pub(crate) fn step(kind: &'static str, source: (char, usize), target: (char, usize)) -> Step {
    let at = |(buffer, at): (char, usize)| (buffer, at as i32);
    let (source, target) = (at(source), at(target));
    Step { kind, source, target, count: 1, awaits: (-1, -1), is_awaited: false }
}

impl Step {
    /// It waits for a step of a block.
    pub(crate) fn after(self, block: usize, step: usize) -> Self {
        Self { awaits: (block as i32, step as i32), ..self }
    }

    /// Others wait for it.
    pub(crate) fn awaited(self) -> Self {
        Self { is_awaited: true, ..self }
    }
}

impl Block {
    pub(crate) fn new(send: usize, receive: usize, steps: Vec<Step>) -> Self {
        Self { send: send as i32, receive: receive as i32, channel: 0, steps }
    }

    pub(crate) fn local(steps: Vec<Step>) -> Self {
        Self { send: -1, receive: -1, channel: 0, steps }
    }
}

impl Algo {
    pub(crate) fn step(&mut self, rank: usize, block: usize, step: usize) -> &mut Step {
        &mut self.ranks[rank][block].steps[step]
    }

    pub(crate) fn xml(&self) -> String {
        let Self { collective, protocol, chunks, scratch, .. } = self;
        let (ranks, in_place) = (self.ranks.len(), u8::from(self.in_place));
        let mut xml = String::new();
        let _ = writeln!(
            xml,
            "<algo name=\"test\" proto=\"{protocol}\" nchannels=\"1\" nchunksperloop=\"{chunks}\" \
             ngpus=\"{ranks}\" coll=\"{collective}\" inplace=\"{in_place}\">"
        );
        for (rank, blocks) in self.ranks.iter().enumerate() {
            let _ = writeln!(
                xml,
                "<gpu id=\"{rank}\" i_chunks=\"{chunks}\" o_chunks=\"0\" s_chunks=\"{scratch}\">"
            );
            for (id, block) in blocks.iter().enumerate() {
                let Block { send, receive, channel, .. } = block;
                let _ = writeln!(
                    xml,
                    "<tb id=\"{id}\" send=\"{send}\" recv=\"{receive}\" chan=\"{channel}\">"
                );
                for (number, step) in block.steps.iter().enumerate() {
                    let Step { kind, source, target, count, awaits, is_awaited } = step;
                    let _ = writeln!(
                        xml,
                        "<step s=\"{number}\" type=\"{kind}\" srcbuf=\"{}\" srcoff=\"{}\" \
                         dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{count}\" depid=\"{}\" deps=\"{}\" \
                         hasdep=\"{}\"/>",
                        source.0,
                        source.1,
                        target.0,
                        target.1,
                        awaits.0,
                        awaits.1,
                        u8::from(*is_awaited)
                    );
                }
                xml += "</tb>\n";
            }
            xml += "</gpu>\n";
        }
        xml + "</algo>\n"
    }
}

/// An all-reduce around a ring.
pub(crate) fn ring(ranks: usize) -> Algo {
    let rank = |rank: usize| {
        let chunk = |back: usize| ('i', (rank + 2 * ranks - back) % ranks);
        let mut steps = vec![step("s", chunk(0), chunk(0))];
        for back in 1..ranks {
            steps.push(step("rrc", chunk(back), chunk(back)));
            steps.push(step("s", chunk(back), chunk(back)));
        }
        for back in 0..ranks - 1 {
            steps.push(step("r", chunk(back), chunk(back)));
            if back + 2 < ranks {
                steps.push(step("s", chunk(back), chunk(back)));
            }
        }
        vec![Block::new((rank + 1) % ranks, (rank + ranks - 1) % ranks, steps)]
    };
    Algo {
        collective: "allreduce",
        protocol: "LL",
        in_place: true,
        chunks: ranks,
        scratch: 0,
        ranks: (0..ranks).map(rank).collect(),
    }
}

/// An all-reduce in which every rank adds up one chunk of all. Block 0 adds, the others exchange.
pub(crate) fn all_pairs(ranks: usize) -> Algo {
    let rank = |rank: usize| {
        let peers: Vec<usize> = (0..ranks).filter(|peer| *peer != rank).collect();
        let mut sum: Vec<Step> =
            (1..peers.len()).map(|at| step("nop", ('i', 0), ('i', 0)).after(at + 1, 1)).collect();
        for at in 0..peers.len() {
            sum.push(step("re", ('s', at), ('i', rank)));
        }
        let (first, last) = (peers.len() - 1, sum.len() - 1);
        sum[first] = sum[first].clone().after(1, 1);
        sum[last] = sum[last].clone().awaited();
        let mut blocks = vec![Block::local(sum)];
        for (at, &peer) in peers.iter().enumerate() {
            let steps = vec![
                step("s", ('i', peer), ('s', 0)),
                step("r", ('i', rank), ('s', at)).awaited(),
                step("s", ('i', rank), ('i', rank)).after(0, last),
                step("r", ('i', peer), ('i', peer)),
            ];
            blocks.push(Block::new(peer, peer, steps));
        }
        blocks
    };
    Algo {
        collective: "allreduce",
        protocol: "Simple",
        in_place: true,
        chunks: ranks,
        scratch: ranks - 1,
        ranks: (0..ranks).map(rank).collect(),
    }
}

/// An all-to-all of two nodes with two ranks each: first within the nodes, then between them.
pub(crate) fn two_steps() -> Algo {
    let rank = |rank: usize| {
        let (beside, across) = (rank ^ 1, rank ^ 2);
        let both = rank ^ 3;
        let within = vec![
            step("s", ('i', beside), ('o', rank)),
            step("s", ('i', both), ('s', 0)),
            step("r", ('i', rank), ('o', beside)),
            step("r", ('i', across), ('s', 0)).awaited(),
        ];
        let between = vec![
            step("s", ('i', across), ('o', rank)),
            step("s", ('s', 0), ('o', beside)).after(0, 3),
            step("r", ('i', rank), ('o', across)),
            step("r", ('s', 0), ('o', both)),
        ];
        let own = vec![step("cpy", ('i', rank), ('o', rank))];
        vec![
            Block::new(beside, beside, within),
            Block::new(across, across, between),
            Block::local(own),
        ]
    };
    Algo {
        collective: "alltoall",
        protocol: "Simple",
        in_place: false,
        chunks: 4,
        scratch: 1,
        ranks: (0..4).map(rank).collect(),
    }
}
