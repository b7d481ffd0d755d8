//! All-to-alls with few messages.

use crate::plan;

plan! {
    /// Sends part `i` of `a` to rank `i`, which gets it as the part of `b` with the sender's
    /// number, by Bruck's algorithm: in each round, a rank sends half of what it has in one
    /// message, at distances 1, 2, 4 and so on. A part takes the rounds whose distances add up to
    /// its way. There is one message per round instead of one to each rank, but parts travel
    /// several times, so it suits small ones.
    ///
    /// All ranks run it. `a` and `b` have `len` elements, which the number of ranks
    /// divides. `comm.all_to_all` does the same with a message for each pair of ranks.
    ///
    /// ```
    /// use typed_nccl::plans::bruck_all_to_all;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn transpose<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = bruck_all_to_all::Params { len: 3 };
    ///     let mut exchange = bruck_all_to_all::bind::<u32, _>(&mut comm, params)?;
    ///     let rank = comm.rank().index() as u32;
    ///     let a = comm.device().from_slice(&[10 * rank, 10 * rank + 1, 10 * rank + 2])?;
    ///     let mut b = comm.device().zeros(3)?;
    ///     exchange.run(&comm, bruck_all_to_all::Buffers { a: &a, b: &mut b })?;
    ///     assert_eq!(b.to_vec()?, [rank, 10 + rank, 20 + rank]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(3, |place| transpose(place.init()?))
    /// }
    /// ```
    ///
    /// On three ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/bruck_all_to_all.txt")]
    /// ```
    pub bruck_all_to_all<T: Element>(n: Ranks, len: usize) where len % n == 0 {
        in a: [T; len];
        out b: [T; len];
        local all, sent, got: [T; len];
        stream net;
        // Part `i` has to go `i` ranks ahead.
        for i in 0..n {
            all.chunk(n, i) = a.chunk(n, (rank + i) % n);
        }
        for d in powers of 2 below n {
            // Those whose way has this bit, next to each other.
            for i in 0..n {
                if i / d % 2 == 1 {
                    sent.chunk(n, i / (2 * d) * d + i % d) = all.chunk(n, i);
                }
            }
            let many = (n / (2 * d) * d + max(n % (2 * d) - d, 0)) * (len / n);
            send sent[..many] to (rank + d) % n into got[..many];
            for i in 0..n {
                if i / d % 2 == 1 {
                    all.chunk(n, i) = got.chunk(n, i / (2 * d) * d + i % d);
                }
            }
        }
        // Part `i` has come `i` ranks.
        for i in 0..n {
            b.chunk(n, (rank - i) % n) = all.chunk(n, i);
        }
        computes all_to_all(a -> b);
    }
}

plan! {
    /// Sends part `i` of `a` to rank `i`, which gets it as the part of `b` with the sender's
    /// number, in two steps: within each node, a rank gathers what is for ranks of its own number
    /// on all nodes; then those exchange it. A rank sends each node one message instead of `local`.
    ///
    /// All ranks run it; rank `r` is number `r % local` of node `r / local`. `a` and `b` have
    /// `part` elements for each rank.
    ///
    /// ```
    /// use typed_nccl::plans::two_step_all_to_all;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn transpose<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = two_step_all_to_all::Params { nodes: 2, local: 2, part: 1 };
    ///     let mut exchange = two_step_all_to_all::bind::<u32, _>(&mut comm, params)?;
    ///     let rank = comm.rank().index() as u32;
    ///     let own = [10 * rank, 10 * rank + 1, 10 * rank + 2, 10 * rank + 3];
    ///     let a = comm.device().from_slice(&own)?;
    ///     let mut b = comm.device().zeros(4)?;
    ///     exchange.run(&comm, two_step_all_to_all::Buffers { a: &a, b: &mut b })?;
    ///     assert_eq!(b.to_vec()?, [rank, 10 + rank, 20 + rank, 30 + rank]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(4, |place| transpose(place.init()?))
    /// }
    /// ```
    ///
    /// On two nodes of two ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/two_step_all_to_all.txt")]
    /// ```
    pub two_step_all_to_all<T: Element>(nodes: Ranks, local: Ranks, part: usize) {
        comm node along local;
        comm rail along nodes;
        in a: [T; size * part];
        out b: [T; size * part];
        local sorted, here: [T; size * part];
        stream net;
        // By the number within the node, then by node.
        for i in 0..nodes {
            for k in 0..local {
                sorted.chunk(size, k * nodes + i) = a.chunk(size, i * local + k);
            }
        }
        node.all_to_all(sorted -> here);
        // By node, then by the number within it of the sender.
        for i in 0..nodes {
            for k in 0..local {
                sorted.chunk(size, i * local + k) = here.chunk(size, k * nodes + i);
            }
        }
        rail.all_to_all(sorted -> b);
        computes all_to_all(a -> b);
    }
}

plan! {
    /// Sends part `i` of `a` to rank `i`, which gets it as the part of `b` with the sender's
    /// number, in three steps: for each other node, one rank gathers what its node has for it,
    /// sends it to one rank there, and that rank spreads it. Two nodes exchange one message in each
    /// direction, and each of their ranks serves other nodes.
    ///
    /// All ranks run it; rank `r` is number `r % local` of node `r / local`. `a` and `b` have
    /// `part` elements for each rank.
    ///
    /// ```
    /// use typed_nccl::plans::three_step_all_to_all;
    /// use typed_nccl::{Communicator, Device, Host, Result, spmd};
    ///
    /// fn transpose<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let params = three_step_all_to_all::Params { nodes: 2, local: 2, part: 1 };
    ///     let mut exchange = three_step_all_to_all::bind::<u32, _>(&mut comm, params)?;
    ///     let rank = comm.rank().index() as u32;
    ///     let own = [10 * rank, 10 * rank + 1, 10 * rank + 2, 10 * rank + 3];
    ///     let a = comm.device().from_slice(&own)?;
    ///     let mut b = comm.device().zeros(4)?;
    ///     exchange.run(&comm, three_step_all_to_all::Buffers { a: &a, b: &mut b })?;
    ///     assert_eq!(b.to_vec()?, [rank, 10 + rank, 20 + rank, 30 + rank]);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     spmd::<Host>(4, |place| transpose(place.init()?))
    /// }
    /// ```
    ///
    /// On two nodes of two ranks:
    ///
    /// ```text
    #[doc = include_str!("timelines/three_step_all_to_all.txt")]
    /// ```
    pub three_step_all_to_all<T: Element>(nodes: Ranks, local: Ranks, part: usize) {
        in a: [T; size * part];
        out b: [T; size * part];
        // Of a node's `nodes - 1` others, each rank serves at most so many.
        let served = max((nodes - 2) / local + 1, 1);
        local gathered, arrived: [T; served * local * local * part];
        stream net;
        let here = rank.nodes;
        // The first rank of this node.
        let first = here * local;
        group {
            for i in 0..local {
                send a.chunk(size, first + i) to rank(first + i) into b.chunk(size, rank);
            }
            for k in 0..nodes - 1 {
                let node = if k < here { k } else { k + 1 };
                let slot = k / local * local + rank.local;
                send a.chunk(nodes, node) to rank(first + k % local)
                    into gathered.chunk(served * local, slot);
            }
        }
        group {
            for k in 0..nodes - 1 {
                if k % local == rank.local {
                    let node = if k < here { k } else { k + 1 };
                    // This node among the others of that one.
                    let back = if k < here { here - 1 } else { here };
                    send gathered.chunk(served, k / local) to rank(node * local + back % local)
                        into arrived.chunk(served, back / local);
                }
            }
        }
        group {
            for k in 0..nodes - 1 {
                if k % local == rank.local {
                    let node = if k < here { k } else { k + 1 };
                    for from in 0..local {
                        for to in 0..local {
                            let from_to = (k / local * local + from) * local + to;
                            send arrived.chunk(served * local * local, from_to) to rank(first + to)
                                into b.chunk(size, node * local + from);
                        }
                    }
                }
            }
        }
        computes all_to_all(a -> b);
    }
}
