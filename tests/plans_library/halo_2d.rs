//! A halo on a torus.

use typed_nccl::plans::halo_2d;
use typed_nccl::{Host, Result, Slice, SliceMut, Stream};

use super::ranks::{RUNS, ranks, timings};

/// A tile of `H` by `W`, and the new value of each point.
const H: usize = 3;
const W: usize = 4;
const EDGE: usize = 4;

fn point(near: [u32; 5]) -> u32 {
    let weights = [3, 5, 7, 11, 13];
    near.iter().zip(weights).fold(1, |sum: u32, (x, by)| sum.wrapping_add(x.wrapping_mul(by)))
}

/// Keeps the tile unchanged until the halo has arrived.
struct Tile;

impl<Tag> halo_2d::Steps<u32, Host<Tag>> for Tile {
    fn pack(
        &mut self,
        u: Slice<'_, u32, Host<Tag>>,
        mut edges: SliceMut<'_, u32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        stream.launch((&u, &mut edges), |(u, edges), ()| {
            let (above, below) = (0..W).map(|x| (u[x], u[(H - 1) * W + x])).unzip();
            let (before, behind) = (0..H).map(|y| (u[y * W], u[y * W + W - 1])).unzip();
            let all: [Vec<u32>; 4] = [above, below, before, behind];
            for (edge, values) in edges.chunks_mut(EDGE).zip(all) {
                edge[..values.len()].copy_from_slice(&values);
            }
        })
    }

    /// Leaves a mark after the tile to show that it has run.
    fn interior(
        &mut self,
        mut u: SliceMut<'_, u32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        stream.launch(&mut u, |u, ()| u[H * W] += 1)
    }

    fn finish(
        &mut self,
        mut u: SliceMut<'_, u32, Host<Tag>>,
        from_above: Slice<'_, u32, Host<Tag>>,
        from_below: Slice<'_, u32, Host<Tag>>,
        from_before: Slice<'_, u32, Host<Tag>>,
        from_behind: Slice<'_, u32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        let halo = (&mut u, &from_above, &from_below, &from_before, &from_behind);
        stream.launch(halo, |(u, above, below, before, behind), ()| {
            let old = u.to_vec();
            for (y, x) in (0..H).flat_map(|y| (0..W).map(move |x| (y, x))) {
                let at = |y: usize, x: usize| old[y * W + x];
                u[y * W + x] = point([
                    at(y, x),
                    if y == 0 { above[x] } else { at(y - 1, x) },
                    if y + 1 == H { below[x] } else { at(y + 1, x) },
                    if x == 0 { before[y] } else { at(y, x - 1) },
                    if x + 1 == W { behind[y] } else { at(y, x + 1) },
                ]);
            }
        })
    }
}

#[test]
fn a_halo_on_a_torus() {
    let grids = [(1, 2), (2, 1), (1, 3), (2, 2), (5, 1), (2, 3), (3, 2), (1, 7), (2, 4), (4, 2)];
    for (rows, cols) in grids {
        ranks!(rows * cols, |comm| {
            let (high, wide) = (rows * H, cols * W);
            let (top, left) = (comm.rank().index() / cols * H, comm.rank().index() % cols * W);
            let tile = |whole: &[u32], mark: u32| -> Vec<u32> {
                let rows = (top..top + H).map(|y| &whole[y * wide + left..][..W]);
                rows.flatten().copied().chain([mark]).collect()
            };
            let params = halo_2d::Params { rows, cols, m: H * W + 1, h: EDGE };
            let mut halo = halo_2d::bind::<u32, _>(&mut comm, params)?;
            for timing in timings(&comm) {
                halo.set_timing(timing);
                let mut whole: Vec<u32> = (0..(high * wide) as u32).map(|at| at * at).collect();
                let mut u = comm.device().from_slice(&tile(&whole, 0))?;
                for _ in 0..RUNS {
                    halo.run(&comm, halo_2d::Buffers { u: &mut u }, &mut Tile)?;
                    let at = |y: usize, x: usize| whole[y % high * wide + x % wide];
                    let near = |y: usize, x: usize| {
                        [
                            at(y, x),
                            at(y + high - 1, x),
                            at(y + 1, x),
                            at(y, x + wide - 1),
                            at(y, x + 1),
                        ]
                    };
                    whole = (0..high * wide).map(|at| point(near(at / wide, at % wide))).collect();
                }
                assert_eq!(u.to_vec()?, tile(&whole, RUNS as u32), "{timing:?}");
            }
        });
    }
}
