//! Plans along lists of constants: a topology's edges, and an order of ranks.

use typed_nccl::{Host, plan};

use crate::ranks::spmd;

plan! {
    /// The first rank's numbers, along the edges of this tree.
    along_edges<T: Element>(n: Ranks in [4], len: usize) {
        inout x: [T; len];
        const edges = [(0, 2), (2, 1), (2, 3)];
        for (from, to) in edges {
            if rank == from {
                send x to rank(to) into x;
            }
        }
        computes broadcast(x, root = 0);
    }
}

plan! {
    /// Everybody's numbers, around the ring 0, 1, 3, 2.
    in_this_order<T: Element>(n: Ranks in [4], len: usize) {
        in x: [T; len];
        out all: [T; n * len];
        const ring = [0, 1, 3, 2];
        const place = [0, 1, 3, 2];
        const next = [1, 3, 0, 2];
        let at = place[rank];
        all.chunk(n, rank) = x;
        for s in 0..n - 1 {
            let part = ring[(at - s) % n];
            send all.chunk(n, part) to next[rank] into all.chunk(n, part);
        }
        computes all_gather(x -> all);
    }
}

#[test]
fn what_is_listed_is_what_happens() {
    spmd::<Host>(4, |place| {
        let mut comm = place.init()?;
        let rank = comm.rank().index() as i32;
        let device = comm.device().clone();

        let mut x = device.from_slice(&[rank; 3])?;
        let mut edges = along_edges::bind::<i32, _>(&mut comm, along_edges::Params { len: 3 })?;
        edges.run(&comm, along_edges::Buffers { x: &mut x })?;
        assert_eq!(x.to_vec()?, [0; 3]);

        let x = device.from_slice(&[rank, 10 * rank])?;
        let mut all = device.zeros(8)?;
        let params = in_this_order::Params { len: 2 };
        let mut ring = in_this_order::bind::<i32, _>(&mut comm, params)?;
        ring.run(&comm, in_this_order::Buffers { x: &x, all: &mut all })?;
        assert_eq!(all.to_vec()?, [0, 0, 1, 10, 2, 20, 3, 30]);
        comm.finish()
    })
    .expect("the edges and the ring are right");
}
