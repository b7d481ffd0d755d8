//! A halo on a line that is closed to a ring.

use typed_nccl::plan::Swapped;
use typed_nccl::plans::halo_1d;
use typed_nccl::{Host, Result, Slice, SliceMut, Stream};

use super::ranks::{RUNS, ranks, timings};

/// The new value of an element, which depends on left and right differently.
fn smooth(near: [u32; 3]) -> u32 {
    near[0].wrapping_add(near[1].wrapping_mul(2)).wrapping_add(near[2].wrapping_mul(3))
}

/// `u` has `h` more elements at each end than `next`; the farthest of them are neighbours.
fn line(u: &[u32], next: &mut [u32], h: usize) {
    for (at, next) in next.iter_mut().enumerate() {
        *next = smooth([u[at], u[at + h], u[at + 2 * h]]);
    }
}

struct Line {
    h: usize,
}

impl<Tag> halo_1d::Steps<u32, Host<Tag>> for Line {
    fn interior(
        &mut self,
        u: Slice<'_, u32, Host<Tag>>,
        mut next: SliceMut<'_, u32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        let h = self.h;
        stream.launch((&u, &mut next), move |(u, next), ()| line(u, next, h))
    }

    fn edges(
        &mut self,
        u: Slice<'_, u32, Host<Tag>>,
        mut low: SliceMut<'_, u32, Host<Tag>>,
        mut high: SliceMut<'_, u32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        let h = self.h;
        stream.launch((&u, &mut low, &mut high), move |(u, low, high), ()| {
            line(&u[..3 * h], low, h);
            line(&u[u.len() - 3 * h..], high, h);
        })
    }
}

#[test]
fn a_halo_on_a_line() {
    for n in 1..=8 {
        for (m, h) in [(8, 1), (13, 2)] {
            ranks!(n, |comm| {
                let (own, rank) = (m - 2 * h, comm.rank().index());
                let mut halo = halo_1d::bind::<u32, _>(&mut comm, halo_1d::Params { m, h })?;
                for timing in timings(&comm) {
                    halo.set_timing(timing);
                    let mut whole: Vec<u32> = (0..(n * own) as u32).map(|at| at * at + 1).collect();
                    let (mut now, next) = (comm.window(m)?, comm.window(m)?);
                    now.slice_mut(h..m - h).copy_from(&whole[rank * own..(rank + 1) * own])?;
                    let mut u = Swapped::new(now, next);
                    comm.barrier()?;
                    for _ in 0..RUNS {
                        halo.run(&comm, halo_1d::Buffers { u: &mut u }, &mut Line { h })?;
                        let len = whole.len();
                        let near = |at: usize| [(at + len - h) % len, at, (at + h) % len];
                        whole = (0..len).map(|at| smooth(near(at).map(|at| whole[at]))).collect();
                    }
                    let found = u.current().slice(h..m - h).to_vec()?;
                    assert_eq!(found, whole[rank * own..(rank + 1) * own], "{timing:?}");
                    let (now, next) = u.into_parts();
                    comm.close(now)?;
                    comm.close(next)?;
                }
            });
        }
    }
}
