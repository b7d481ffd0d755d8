//! Steps that declare what they compute: a ring all-reduce, checked against its claim, and run.

use typed_nccl::{
    Communicator, Device, Element, Host, Result, Slice, SliceMut, Stream, kernel, plan,
};

use crate::ranks::spmd;

plan! {
    /// An all-reduce of sends, receives and additions.
    #[allow(deprecated, reason = "its streams take turns")]
    ring_all_reduce(n: Ranks, len: usize) where len % n == 0 {
        inout x: [f32; len];
        local got[i in 0..2]: [f32; len / n];
        stream net, compute;
        for i in 0..n - 1 {
            send x.chunk(n, (rank - i) % n) to (rank + 1) % n into got[i % 2] on net;
            run add(read got[i % 2], update x.chunk(n, (rank - i - 1) % n))
                computes x += got on compute;
        }
        for i in 0..n - 1 {
            send x.chunk(n, (rank - i + 1) % n) to (rank + 1) % n into x.chunk(n, (rank - i + 1) % n)
                on net;
        }
        computes all_reduce(x, sum);
    }
}

plan! {
    /// The sum by partners, each a peer by cases.
    by_doubling(n: Ranks in [1, 2, 4, 8], len: usize) {
        inout x: [f32; len];
        local other: [f32; len];
        for d in [1, 2, 4] {
            if d < n {
                send x to if rank / d % 2 == 0 { rank + d } else { rank - d } into other;
                run add(read other, update x) computes x += other;
            }
        }
        computes all_reduce(x, sum);
    }
}

plan! {
    /// On a mesh, to ranks by their numbers: each to its mirror, and all to the last one.
    by_number(rows: Ranks, cols: Ranks) {
        in x: [f32; 1];
        out y: [f32; 1];
        inout all: [f32; size];
        send x to rank(size - 1 - rank) into y;
        send x to rows * cols - 1 into all.chunk(size, rank);
    }
}

struct Adds;

impl<D: Device> by_doubling::Steps<D> for Adds {
    fn add(
        &mut self,
        other: Slice<'_, f32, D>,
        mut x: SliceMut<'_, f32, D>,
        stream: &Stream<D>,
    ) -> Result<()> {
        stream.run(add(other, &mut x))
    }
}

kernel! {
    /// `x += got`
    fn add(got: &[f32], x: &mut [f32]);
    // SAFETY: the plan gives it two parts of one length.
    unsafe cuda "for (size_t i = threadIdx.x; i < x_len; i += blockDim.x) x[i] += got[i];";
    host {
        for (to, of) in x.iter_mut().zip(got) {
            *to += of;
        }
    }
}

/// On every device.
impl<D: Device> ring_all_reduce::Steps<D> for Adds {
    fn add(
        &mut self,
        got: Slice<'_, f32, D>,
        mut x: SliceMut<'_, f32, D>,
        stream: &Stream<D>,
    ) -> Result<()> {
        stream.run(add(got, &mut x))
    }
}

fn reduce<Tag>(mut comm: Communicator<Host<Tag>>, len: usize) -> Result<()> {
    let mut sum = ring_all_reduce::bind(&mut comm, ring_all_reduce::Params { len })?;
    let (rank, n) = (comm.rank().index(), comm.size());
    let own: Vec<f32> = (0..len).map(|at| (rank * len + at) as f32).collect();
    let mut x = comm.device().from_slice(&own)?;
    for _ in 0..3 {
        x.copy_from(&own)?;
        sum.run(&comm, ring_all_reduce::Buffers { x: &mut x }, &mut Adds)?;
        let of = |at: usize| (0..n).map(|rank| (rank * len + at) as f32).sum::<f32>();
        assert_eq!(x.to_vec()?, (0..len).map(of).collect::<Vec<f32>>());
    }
    comm.finish()
}

#[test]
fn a_ring_all_reduce_by_steps_adds_up() {
    for n in 1..=6 {
        spmd::<Host>(n, |place| reduce(place.init()?, 2 * n)).expect("every rank has the sums");
    }
}

/// What it claims is followed at sizes that programs have, and nothing is left unchecked.
#[test]
fn a_claim_is_checked_at_any_length() {
    spmd::<Host>(8, |place| {
        let mut comm = place.init()?;
        let bound = ring_all_reduce::bind(&mut comm, ring_all_reduce::Params { len: 4 << 20 })?;
        assert!(!bound.describe().contains("was not checked"), "{}", bound.describe());
        comm.finish()
    })
    .expect("the plan is right");
    spmd::<Host>(4, |place| reduce(place.init()?, 1 << 16)).expect("every rank has the sums");
}

/// Likewise with a closure as the step, which borrows its surroundings.
#[test]
fn a_step_is_a_closure() {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let mut sum = ring_all_reduce::bind(&mut comm, ring_all_reduce::Params { len: 6 })?;
        let mut x = comm.device().from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
        let mut added = 0;
        let mut steps = sum.steps().add(|got, mut x, stream| {
            added += x.len();
            stream.launch((&got, &mut x), |(got, x), ()| {
                for (to, of) in x.iter_mut().zip(got) {
                    *to += of;
                }
            })
        });
        for _ in 0..2 {
            sum.run(&comm, ring_all_reduce::Buffers { x: &mut x }, &mut steps)?;
        }
        assert_eq!(x.to_vec()?, [9.0, 18.0, 27.0, 36.0, 45.0, 54.0]);
        assert_eq!(added, 8);
        comm.finish()
    })
    .expect("every rank has the sums");
}

plan! {
    /// One step, in any run.
    counted(n: Ranks) {
        inout x: [f32; 1];
        run count(update x);
    }
}

plan! {
    /// The same, in one run alone.
    #[once]
    counted_once(n: Ranks) {
        inout x: [f32; 1];
        run count(update x);
    }
}

/// The closures may be in the call of `run`, and before it where `run` takes the plan.
#[test]
fn closures_where_the_plan_runs() {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut x = comm.device().zeros(1)?;
        let mut runs = 0;
        let mut counted = counted::bind(&mut comm)?;
        for _ in 0..2 {
            let buffers = counted::Buffers { x: &mut x };
            let count = |_: SliceMut<'_, f32, _>, _: &Stream<_>| {
                runs += 1;
                Ok(())
            };
            counted.run(&comm, buffers, &mut counted.steps().count(count))?;
        }
        let once = counted_once::bind(&mut comm)?;
        let mut steps = once.steps().count(|_, _| {
            runs += 1;
            Ok(())
        });
        once.run(&comm, counted_once::Buffers { x: &mut x }, &mut steps)?;
        assert_eq!(runs, 3);
        comm.finish()
    })
    .expect("each run has its step");
}

plan! {
    /// Steps with numbers and arrays, for any elements.
    filled<T: Element>(n: Ranks, k: usize, len: usize) {
        out g[i in 0..k]: [T; len];
        inout all: [T; len];
        for i in 0..k {
            run fill(i, write g[i]);
        }
        run last(read g, update all);
    }
}

/// Closures for several steps, given in any order, in code that is generic over elements and
/// device.
fn fill<D: Device, T: Element + PartialEq + std::fmt::Debug>(
    comm: &mut Communicator<D>,
    value: T,
) -> Result<Vec<T>> {
    let mut bound = filled::bind::<T, _>(comm, filled::Params { k: 2, len: 1 })?;
    let mut g = [comm.device().from_slice(&[value])?, comm.device().from_slice(&[value])?];
    let mut all = comm.device().from_slice(&[value])?;
    let (mut numbers, mut buffers) = (Vec::new(), 0);
    let mut steps = bound
        .steps()
        .last(|g, _, _| {
            buffers += g.len();
            Ok(())
        })
        .fill(|i, _, _| {
            numbers.push(i);
            Ok(())
        });
    bound.run(comm, filled::Buffers { g: &mut g, all: &mut all }, &mut steps)?;
    assert_eq!((numbers, buffers), (vec![0, 1], 2));
    all.to_vec()
}

#[test]
fn closures_in_code_for_any_device() {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        assert_eq!(fill(&mut comm, 7_u32)?, [7]);
        comm.finish()
    })
    .expect("both ranks ran their steps");
}

#[test]
fn partners_by_cases_add_up() {
    for n in [1, 2, 4, 8] {
        spmd::<Host>(n, |place| {
            let mut comm = place.init()?;
            let mut sum = by_doubling::bind(&mut comm, by_doubling::Params { len: 3 })?;
            let rank = comm.rank().index() as f32;
            let mut x = comm.device().from_slice(&[rank, 1.0, 10.0 * rank])?;
            sum.run(&comm, by_doubling::Buffers { x: &mut x }, &mut Adds)?;
            let all = (n * (n - 1) / 2) as f32;
            assert_eq!(x.to_vec()?, [all, n as f32, 10.0 * all]);
            comm.finish()
        })
        .expect("every rank has the sums");
    }
}

#[test]
fn ranks_of_a_mesh_by_number() {
    spmd::<Host>(6, |place| {
        let mut comm = place.init()?;
        let mut plan = by_number::bind(&mut comm, by_number::Params { rows: 2, cols: 3 })?;
        let rank = comm.rank().index() as f32;
        let x = comm.device().from_slice(&[rank])?;
        let (mut y, mut all) = (comm.device().zeros(1)?, comm.device().zeros(6)?);
        plan.run(&comm, by_number::Buffers { x: &x, y: &mut y, all: &mut all })?;
        assert_eq!(y.to_vec()?, [5.0 - rank]);
        let last = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(all.to_vec()?, if rank == 5.0 { last } else { [0.0; 6] });
        comm.finish()
    })
    .expect("every rank has its numbers");
}
