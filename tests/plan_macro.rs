//! Plans of `plan!` run, and produce the right numbers.

use typed_nccl::plan::{Slices, Swapped};
use typed_nccl::{Communicator, Device, Error, Host, Result, Slice, SliceMut, Stream, World, plan};

plan! { pub ring<T: Element>(n: Ranks, len: usize) {
    in a: [T; len];
    out b: [T; len];
    send a to (rank + 1) % n into b;
} }

plan! {
    pub grad_sync<T: Float>(n: Ranks, k: usize, sizes: [usize; k]) {
        inout g[i in 0..k]: [T; sizes[i]];
        stream compute, net;
        for i in (0..k).rev() {
            run backward(i, write g[i]) on compute;
            all_reduce(g[i], avg) on net after compute;
        }
        run apply(read g) on compute after net;
    }
}

plan! { pub hierarchical<T: Numeric>(nodes: Ranks, local: Ranks in [2, 4, 8], len: usize)
where
    len % local == 0,
{
    comm node along local;
    comm rail along nodes;
    inout x: [T; len];
    let part = x.chunk(local, rank.local);
    node.reduce_scatter(x -> part, sum);
    rail.all_reduce(part, sum);
    node.all_gather(part -> x);
} }

plan! {
    pub halo<T: Element>(n: Ranks, m: usize, h: usize) where n >= 3, m >= 4 * h {
        inout swapped window u: [T; m];
        signal lo, hi;
        stream net, cmp;
        let left = (rank - 1) % n;
        let right = (rank + 1) % n;
        put u[h..2 * h] to left into u[m - h..m] signal hi on net;
        put u[m - 2 * h..m - h] to right into u[..h] signal lo on net;
        run interior(read u[h..m - h], write u.next[2 * h..m - 2 * h]) on cmp;
        wait hi from right, lo from left on net;
        run edges(read u, write u.next[h..2 * h], write u.next[m - 2 * h..m - h]) on cmp after net;
    }
}

const TILE: usize = 3;

plan! {
    pub tiles(n: Ranks, k: usize, const TILE: usize) {
        in a: [i32; k * TILE];
        out b: [i32; k * TILE];
        for i in 0..k {
            send a[i * TILE..(i + 1) * TILE] to (rank + 1) % n into b[i * TILE..(i + 1) * TILE];
        }
    }
}

plan! {
    pub even_tiles(n: Ranks, const TILE: usize in [2, 4]) {
        inout a: [i32; TILE];
        all_reduce(a, sum);
    }
}

/// Counts its steps.
#[derive(Default)]
struct Model {
    order: Vec<usize>,
    seen: usize,
}

impl<D: Device> grad_sync::Steps<f32, D> for Model {
    fn backward(&mut self, i: usize, mut g: SliceMut<'_, f32, D>, _: &Stream<D>) -> Result<()> {
        self.order.push(i);
        g.copy_from(&vec![i as f32; g.len()])
    }

    fn apply(&mut self, g: Slices<'_, f32, D>, _: &Stream<D>) -> Result<()> {
        self.seen = g.iter().map(|one| one.len()).sum();
        Ok(())
    }
}

/// Copies: a neighbour's data becomes its own.
impl<D: Device> halo::Steps<f32, D> for Model {
    fn interior(
        &mut self,
        u: Slice<'_, f32, D>,
        u_next: SliceMut<'_, f32, D>,
        _: &Stream<D>,
    ) -> Result<()> {
        assert_eq!((u.len(), u_next.len()), (6, 4));
        Ok(())
    }

    fn edges(
        &mut self,
        u: Slice<'_, f32, D>,
        low: SliceMut<'_, f32, D>,
        high: SliceMut<'_, f32, D>,
        _: &Stream<D>,
    ) -> Result<()> {
        assert_eq!((u.len(), low.len(), high.len()), (8, 1, 1));
        Ok(())
    }
}

/// Runs it on four ranks.
macro_rules! four {
    (|$comm:pat_param| $body:block) => {
        Host::spmd(4, |place| -> Result<()> {
            let $comm = place.init()?;
            $body
        })
        .expect("the ranks run");
    };
}

#[test]
fn around_a_ring() {
    fn run<W: World>(mut comm: Communicator<W>) -> Result<()> {
        let mut bound = ring::bind::<i32, _>(&mut comm, ring::Params { len: 2 })?;
        let mine = comm.rank().index() as i32;
        let a = comm.device().from_slice(&[mine, mine])?;
        let mut b = comm.device().zeros(2)?;
        bound.run(&comm, ring::Buffers { a: &a, b: &mut b })?;
        assert_eq!(b.to_vec()?, [(mine + 3) % 4; 2]);
        assert!(bound.describe().contains("rank 0"), "{}", bound.describe());
        comm.finish()
    }
    four!(|comm| { run(comm) });
}

#[test]
fn gradients_bucket_by_bucket() {
    four!(|mut comm| {
        let (sizes, mut model) = ([3, 5], Model::default());
        let params = grad_sync::Params { k: 2, sizes: &sizes };
        let mut bound = grad_sync::bind::<f32, _>(&mut comm, params)?;
        let mut g = [comm.device().zeros(3)?, comm.device().zeros(5)?];
        bound.run(&comm, grad_sync::Buffers { g: &mut g }, &mut model)?;
        assert_eq!((&*model.order, model.seen), (&[1, 0][..], 8));
        assert_eq!(g[1].to_vec()?, [1.0; 5]);
        comm.finish()
    });
}

#[test]
fn in_three_steps() {
    four!(|mut comm| {
        let params = hierarchical::Params { nodes: 2, local: 2, len: 4 };
        let mut bound = hierarchical::bind::<f32, _>(&mut comm, params)?;
        let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 4])?;
        bound.run(&comm, hierarchical::Buffers { x: &mut x })?;
        assert_eq!(x.to_vec()?, [6.0; 4]);
        comm.finish()
    });
}

#[test]
fn edges_of_neighbours() {
    four!(|mut comm| {
        let mut bound = halo::bind::<f32, _>(&mut comm, halo::Params { m: 8, h: 1 })?;
        let (mut first, next) = (comm.window::<f32>(8)?, comm.window::<f32>(8)?);
        first.copy_from(&[comm.rank().index() as f32; 8])?;
        comm.barrier()?;
        let mut u = Swapped::new(first, next);
        bound.run(&comm, halo::Buffers { u: &mut u }, &mut Model::default())?;
        let (next, first) = u.into_parts();
        let (left, right) = (comm.ring(-1).index() as f32, comm.ring(1).index() as f32);
        let told = first.to_vec()?;
        assert_eq!((told[0], told[7]), (left, right));
        comm.close(next)?;
        comm.close(first)?;
        comm.finish()
    });
}

#[test]
fn values_that_the_plan_does_not_claim_are_named() {
    four!(|mut comm| {
        let params = hierarchical::Params { nodes: 2, local: 2, len: 3 };
        let error = hierarchical::bind::<f32, _>(&mut comm, params).err().expect("refused");
        assert!(error.to_string().contains("hierarchical"), "{error}");
        comm.finish()
    });
}

#[test]
fn a_constant_of_the_program_is_a_number_of_the_plan() {
    four!(|mut comm| {
        let mut bound = tiles::bind(&mut comm, tiles::Params { k: 2 })?;
        assert!(bound.sizes().text.contains("TILE = 3"), "{}", bound.sizes().text);
        let mine = comm.rank().index() as i32;
        let a = comm.device().from_slice(&[mine; 2 * TILE])?;
        let mut b = comm.device().zeros(2 * TILE)?;
        bound.run(&comm, tiles::Buffers { a: &a, b: &mut b })?;
        assert_eq!(b.to_vec()?, [(mine + 3) % 4; 2 * TILE]);
        comm.finish()
    });
}

#[test]
fn a_constant_that_the_plan_is_not_for_is_refused() {
    four!(|mut comm| {
        let error = even_tiles::bind(&mut comm).err().expect("refused").to_string();
        assert!(error.contains("TILE"), "{error}");
        comm.finish()
    });
}

#[test]
fn the_plan_as_data() {
    assert_eq!(ring::plan().buffers.len(), 2);
    assert!(ring::plan().files[0].ends_with("plan_macro.rs"));
}

/// The numbers of ranks that a plan supports are known while a program compiles.
#[test]
fn what_a_plan_claims_is_a_constant() {
    const { assert!(ring::claims(1) && !ring::claims(0)) }
    const { assert!(halo::claims(3) && !halo::claims(2)) }
    plan! { even<T: Element>(n: Ranks in [2, 3, 4, 8], len: usize)
    where
        n % 2 == 0,
        !(n * 3 > 20) || len > 4,
        len >= n,
    {
        in a: [T; len];
        out b: [T; len];
        send a to (rank + 1) % n into b;
    } }
    const { assert!(even::claims(2) && even::claims(8) && !even::claims(3) && !even::claims(6)) }
}

plan! {
    #[once]
    pub start<T: Numeric>(nodes: Ranks, local: Ranks, len: usize) {
        comm node along local;
        inout x: [T; len];
        node.all_reduce(x, sum);
        all_reduce(x, max);
    }
}

/// Also if the bound plan is taken as data, which its runs borrow.
#[test]
fn a_plan_for_one_run_is_one_as_data_too() {
    typed_nccl::spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let params = start::Params { nodes: 1, local: 2, len: 2 };
        let mut start = start::bind::<i32, _>(&mut comm, params)?;
        let bound: &mut plan::Bound<_> = start.as_mut();
        let mut x = comm.device().zeros::<i32>(2)?;
        bound.on(&comm).write("x", &mut x).run(&mut ())?;
        let again = bound.on(&comm).write("x", &mut x).run(&mut ());
        assert!(matches!(again, Err(Error::RanAlready(_))), "{again:?}");
        let moved = start.run(&comm, start::Buffers { x: &mut x });
        assert!(matches!(moved, Err(Error::RanAlready(_))), "{moved:?}");
        comm.finish()
    })
    .expect("a refusal does no harm");
}

/// A plan for one run is gone after it, with its communicators, and its enqueued work still runs.
#[test]
fn a_plan_for_one_run() {
    typed_nccl::spmd::<Host>(4, |place| {
        let mut comm = place.init()?;
        for round in 0..3 {
            let params = start::Params { nodes: 2, local: 2, len: 2 };
            let start = start::bind::<i32, _>(&mut comm, params)?;
            let rank = i32::try_from(comm.rank().index()).expect("few ranks");
            let mut x = comm.device().from_slice(&[rank, round])?;
            start.run(&comm, start::Buffers { x: &mut x })?;
            assert_eq!(x.to_vec()?, [5, 2 * round]);
        }
        comm.finish()
    })
    .expect("every rank verifies its own numbers");
}
