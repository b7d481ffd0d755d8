//! Plans that read peers' windows: a device's results must be what the plans claim.

use typed_nccl::plan::Timing;
use typed_nccl::{Communicator, Device, Result, World, plan};

plan! {
    /// The next rank's numbers, by a copy of its window.
    pub(crate) around<T: Element>(n: Ranks, len: usize) {
        in x: [T; len];
        out y: [T; len];
        local window shown: [T; len];
        signal ready, done;
        shown = x;
        signal ready to (rank - 1) % n;
        wait ready from (rank + 1) % n;
        y = shown of (rank + 1) % n;
        signal done to (rank + 1) % n;
        wait done from (rank - 1) % n;
        computes y = x of (rank + 1) % n;
    }
}

plan! {
    /// Adds what the rank before has, where there is one, from part of its window.
    pub(crate) along<T: Numeric>(n: Ranks, len: usize in 2..) {
        inout x: [T; len];
        local window shown: [T; len];
        signal ready, done;
        shown = x;
        signal ready to rank + 1;
        wait ready from rank - 1;
        x[1..] += shown[..len - 1] of rank - 1;
        signal done to rank - 1;
        wait done from rank + 1;
        computes x[1..] += x[..len - 1] of rank - 1;
    }
}

plan! {
    /// All windows, reduced at once, beside other work on the same stream's neighbour.
    pub(crate) at_once<T: Numeric>(n: Ranks in 1..=16, len: usize) {
        in x: [T; len];
        out sum, most: [T; len];
        local window shown: [T; len];
        signal ready, done;
        stream net, compute;
        shown = x on net;
        for i in 1..n { signal ready to (rank + i) % n on net; }
        for i in 1..n { wait ready from (rank - i) % n on net; }
        sum = sum(for r in 0..n { shown of r }) on net;
        most = max(for r in 0..n { shown of r }) on compute after net;
        for i in 1..n { signal done to (rank + i) % n on net after compute; }
        for i in 1..n { wait done from (rank - i) % n on net; }
        computes all_reduce(x -> sum, sum);
        computes all_reduce(x -> most, max);
    }
}

plan! {
    /// In the caller's window: each rank adds up a part of all, and all read the sums.
    pub(crate) in_place<T: Numeric>(n: Ranks, len: usize) where len % n == 0 {
        inout window x: [T; len];
        signal ready, summed, done;
        for i in 1..n { signal ready to (rank + i) % n; }
        for i in 1..n { wait ready from (rank - i) % n; }
        for i in 1..n { x.chunk(n, rank) += x.chunk(n, rank) of (rank + i) % n; }
        for i in 1..n { signal summed to (rank + i) % n; }
        for i in 1..n { wait summed from (rank - i) % n; }
        for i in 1..n {
            x.chunk(n, (rank + i) % n) = x.chunk(n, (rank + i) % n) of (rank + i) % n;
        }
        for i in 1..n { signal done to (rank + i) % n; }
        for i in 1..n { wait done from (rank - i) % n; }
        computes all_reduce(x, sum);
    }
}

plan! {
    /// Two copies, of which neighbours still read one.
    pub(crate) in_copies(n: Ranks, len: usize) {
        in x: [i32; len];
        out y: [i32; len];
        local swapped window both: [i32; len];
        signal ready;
        both = x;
        signal ready to (rank - 1) % n;
        signal ready to (rank + 1) % n;
        wait ready from (rank + 1) % n, ready from (rank - 1) % n;
        y = both of (rank + 1) % n + both of (rank - 1) % n;
        computes y = x of (rank + 1) % n + x of (rank - 1) % n;
    }
}

plan! {
    /// The same as one graph.
    #[capture]
    pub(crate) captured(n: Ranks in 1..=16, len: usize) {
        inout x: [i32; len];
        local window shown: [i32; len];
        signal ready, done;
        shown = x;
        for i in 1..n { signal ready to (rank + i) % n; }
        for i in 1..n { wait ready from (rank - i) % n; }
        x = sum(for r in 0..n { shown of r });
        for i in 1..n { signal done to (rank + i) % n; }
        for i in 1..n { wait done from (rank - i) % n; }
        computes all_reduce(x, sum);
    }
}

/// Several runs of each, without anything in between but what the caller reads and fills.
pub(crate) fn every_plan<W: World>(
    comm: &mut Communicator<W>,
    timing: impl Fn(u64) -> Timing,
) -> Result<()> {
    let (n, rank, len) = (comm.size(), comm.rank().index(), 12 * comm.size());
    let own = |rank: usize, round: usize| -> Vec<i32> {
        (0..len as i32).map(|at| 1000 * rank as i32 + 100 * round as i32 + at).collect()
    };
    let next = (rank + 1) % n;
    let sum = |round: usize, at: usize| (0..n).map(|rank| own(rank, round)[at]).sum::<i32>();

    let mut around = around::bind::<i32, _>(comm, around::Params { len })?;
    let mut along = along::bind::<i32, _>(comm, along::Params { len })?;
    let mut at_once = at_once::bind::<i32, _>(comm, at_once::Params { len })?;
    let mut in_place = in_place::bind::<i32, _>(comm, in_place::Params { len })?;
    let mut in_copies = in_copies::bind(comm, in_copies::Params { len })?;
    let mut captured = captured::bind(comm, captured::Params { len })?;
    let mut window = comm.window::<i32>(len)?;
    let device = comm.device().clone();
    for round in 0..4 {
        around.set_timing(timing(round as u64));
        at_once.set_timing(timing(round as u64 + 10));
        in_place.set_timing(timing(round as u64 + 20));
        let x = device.from_slice(&own(rank, round))?;
        let mut y = device.zeros::<i32>(len)?;
        around.run(comm, around::Buffers { x: &x, y: &mut y })?;
        assert_eq!(y.to_vec()?, own(next, round), "around");

        let mut z = device.from_slice(&own(rank, round))?;
        along.run(comm, along::Buffers { x: &mut z })?;
        let mut wanted = own(rank, round);
        if rank > 0 {
            let before = own(rank - 1, round);
            wanted[1..].iter_mut().zip(&before).for_each(|(own, theirs)| *own += theirs);
        }
        assert_eq!(z.to_vec()?, wanted, "along");

        let mut most = device.zeros::<i32>(len)?;
        at_once.run(comm, at_once::Buffers { x: &x, sum: &mut y, most: &mut most })?;
        let sums: Vec<i32> = (0..len).map(|at| sum(round, at)).collect();
        assert_eq!((y.to_vec()?, most.to_vec()?), (sums.clone(), own(n - 1, round)), "at once");

        // The caller fills the window before each run, while a peer may be at the last one.
        window.copy_from(&own(rank, round))?;
        in_place.run(comm, in_place::Buffers { x: &mut window })?;
        assert_eq!(window.to_vec()?, sums, "in place");

        in_copies.run(comm, in_copies::Buffers { x: &x, y: &mut y })?;
        let (right, left) = (own(next, round), own((rank + n - 1) % n, round));
        let both: Vec<i32> = right.iter().zip(left).map(|(right, left)| right + left).collect();
        assert_eq!(y.to_vec()?, both, "in copies");

        let mut z = device.from_slice(&own(rank, round))?;
        captured.run(comm, captured::Buffers { x: &mut z })?;
        assert_eq!(z.to_vec()?, sums, "captured");
    }
    Ok(())
}
