//! Steps that say what they compute: a ring all-reduce, checked against what it claims, and run.

use typed_nccl::{Communicator, Device, Host, Result, Slice, SliceMut, Stream, plan, spmd};

plan! {
    /// An all-reduce of sends, receives and additions.
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

struct Adds;

impl<Tag> ring_all_reduce::Steps<Host<Tag>> for Adds {
    fn add(
        &mut self,
        got: Slice<'_, f32, Host<Tag>>,
        mut x: SliceMut<'_, f32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        stream.launch((&got, &mut x), |(got, x), ()| {
            for (to, of) in x.iter_mut().zip(got) {
                *to += of;
            }
        })
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
