//! Plans along lists of constants: a topology's edges, and an order of ranks.

use typed_nccl::{Error, Host, plan};

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

plan! {
    /// Each rank sends every other one as much as `counts` says, row by row, of at most `most`.
    routed<T: Element>(n: Ranks, most: usize, counts: [usize; n * n] in 0..)
    where
        for i in 0..n * n { counts[i] <= most },
    {
        in a[i in 0..n]: [T; most];
        inout b[i in 0..n]: [T; most];
        group {
            for by in 1..n {
                let to = (rank + by) % n;
                let from = (rank - by) % n;
                if counts[rank * n + to] > 0 {
                    send a[to][..counts[rank * n + to]] to rank(to);
                }
                if counts[from * n + rank] > 0 {
                    recv b[from][..counts[from * n + rank]] from rank(from);
                }
            }
        }
    }
}

#[test]
fn conditions_on_all_elements_of_a_list() {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let (rank, device) = (comm.rank().index(), comm.device().clone());
        let counts = [0, 2, 1, 0, 0, 3, 3, 1, 0];
        let too_many = routed::Params { most: 2, counts: &counts };
        let told = routed::bind::<u32, _>(&mut comm, too_many).err().expect("two are 3");
        let Error::BadPlan(why) = &told else { panic!("{told}") };
        let found = "`counts[i] <= most` does not hold for i = 5, n = 3, most = 2";
        assert!(why.to_string().contains(found), "{told}");

        let params = routed::Params { most: 3, counts: &counts };
        let mut routed = routed::bind::<u32, _>(&mut comm, params)?;
        let own = |to: u32| device.from_slice(&[10 * rank as u32 + to; 3]);
        let a = [own(0)?, own(1)?, own(2)?];
        let mut b = [device.zeros(3)?, device.zeros(3)?, device.zeros(3)?];
        routed.run(&comm, routed::Buffers { a: &a, b: &mut b })?;
        for (from, got) in b.iter().enumerate() {
            let count = if from == rank { 0 } else { counts[3 * from + rank] };
            let mut expected = [0; 3];
            expected[..count].fill((10 * from + rank) as u32);
            assert_eq!(got.to_vec()?, expected, "from {from}");
        }
        comm.finish()
    })
    .expect("what is routed arrives");
}

plan! {
    /// The sums of several parts.
    sums(n: Ranks, k: usize, len: usize) {
        inout parts[i in 0..k]: [f32; len];
        for i in 0..k {
            all_reduce(parts[i], sum);
        }
    }
}

/// A list may be of buffers, of views, or of references to them; of each length.
#[test]
fn lists_of_any_memory() {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut sums = sums::bind(&mut comm, sums::Params { k: 2, len: 2 })?;
        let mut whole =
            [comm.device().from_slice(&[1.0; 2])?, comm.device().from_slice(&[1.0; 2])?];
        let mut parts = comm.device().from_slice(&[1.0; 4])?;
        let mut window = comm.window::<f32>(2)?;
        sums.run(&comm, sums::Buffers { parts: &mut whole })?;
        let [first, second] = &mut whole;
        sums.run(&comm, sums::Buffers { parts: &mut [&mut *second, &mut *first] })?;
        sums.run(&comm, sums::Buffers { parts: &mut parts.parts_mut([2, 2]) })?;
        sums.run(&comm, sums::Buffers { parts: &mut [first.slice_mut(..), second.slice_mut(..)] })?;
        assert_eq!((whole[0].to_vec()?, whole[1].to_vec()?), (vec![8.0; 2], vec![8.0; 2]));
        assert_eq!(parts.to_vec()?, [2.0; 4]);
        let short = sums.run(&comm, sums::Buffers { parts: &mut [&mut window] });
        let short = short.expect_err("the plan has two");
        assert!(short.to_string().contains("`parts` is 1 buffers"), "{short}");
        comm.close(window)?;
        comm.finish()
    })
    .expect("every list is of two parts but the last");
}
