//! Layers spread over ranks, experts, and a domain.

use typed_nccl::{Buffer, Device, Host, Result, spmd};

use super::harness::{RANKS, own, owns, same, sizes};
use super::plans::all_to_all::routed;
use super::plans::training::{fsdp, halo_3d, sequence_parallel};

/// One buffer for each number.
fn filled<D: Device>(
    device: &D,
    many: usize,
    values: impl Fn(usize) -> Vec<f32>,
) -> Result<Vec<Buffer<f32, D>>> {
    (0..many).map(|i| device.from_slice(&values(i))).collect()
}

/// Each layer adds its parameters, whose gradients are they themselves.
#[test]
fn parameters_spread_over_the_ranks() {
    const LAYERS: usize = 3;
    sizes(&RANKS, |n, len| {
        spmd::<Host>(n, |place| {
            let mut comm = place.init()?;
            let (rank, part) = (comm.rank().index(), len / n);
            let params = fsdp::Params { layers: LAYERS, len };
            let mut bound = fsdp::bind::<f32, _>(&mut comm, params)?;
            let w = filled(comm.device(), LAYERS, |i| owns(rank, i, part))?;
            let mut dw = filled(comm.device(), LAYERS, |_| vec![0.0; part])?;
            let mut act = comm.device().zeros::<f32>(len)?;
            let mut steps = bound
                .steps()
                .forward(|_, full, mut act, stream| {
                    stream.launch((&full, &mut act), |(full, act), ()| {
                        act.iter_mut().zip(full).for_each(|(to, of)| *to += of);
                    })
                })
                .backward(|_, full, _, mut grad, stream| {
                    stream.launch((&full, &mut grad), |(full, grad), ()| grad.copy_from_slice(full))
                });
            let buffers = fsdp::Buffers { w: &w, dw: &mut dw, act: &mut act };
            bound.run(&comm, buffers, &mut steps)?;
            for (w, dw) in w.iter().zip(&dw) {
                same(&dw.to_vec()?, &w.to_vec()?, "gradients");
            }
            let sum = |at: usize| (0..LAYERS).map(|i| own(at / part, i, at % part)).sum();
            same(&act.to_vec()?, &(0..len).map(sum).collect::<Vec<f32>>(), "activations");
            comm.finish()
        })
        .unwrap_or_else(|error| panic!("on {n} ranks: {error}"));
    });
}

/// Each rank multiplies by its number, counted from 1.
#[test]
fn tensor_and_sequence_parallel() {
    const LAYERS: usize = 2;
    sizes(&RANKS, |n, len| {
        spmd::<Host>(n, |place| {
            let mut comm = place.init()?;
            let (rank, len) = (comm.rank().index(), len / n);
            let params = sequence_parallel::Params { layers: LAYERS, len };
            let mut bound = sequence_parallel::bind::<f32, _>(&mut comm, params)?;
            let mut x = filled(comm.device(), LAYERS + 1, |i| owns(rank, 10 * i, len))?;
            let mut dx = filled(comm.device(), LAYERS + 1, |i| owns(rank, 10 * i, len))?;
            let by = (rank + 1) as f32;
            let scaled = move |(whole, partial): (&[f32], &mut [f32]), ()| {
                partial.iter_mut().zip(whole).for_each(|(to, of)| *to = by * of);
            };
            let mut steps = bound
                .steps()
                .forward(|_, whole, mut partial, stream| {
                    stream.launch((&whole, &mut partial), scaled)
                })
                .backward(|_, whole, mut partial, stream| {
                    stream.launch((&whole, &mut partial), scaled)
                });
            let buffers = sequence_parallel::Buffers { x: &mut x, dx: &mut dx };
            bound.run(&comm, buffers, &mut steps)?;
            let by = (n * (n + 1) / 2) as f32;
            let (mut there, mut back) = (1.0, 1.0);
            for i in 0..=LAYERS {
                let of = |times: f32, run| -> Vec<f32> {
                    owns(rank, run, len).iter().map(|x| times * x).collect()
                };
                same(&x[i].to_vec()?, &of(there, 0), "forward");
                same(&dx[LAYERS - i].to_vec()?, &of(back, 10 * LAYERS), "backward");
                (there, back) = (there * by, back * by);
            }
            comm.finish()
        })
        .unwrap_or_else(|error| panic!("on {n} ranks: {error}"));
    });
}

/// Some ranks have no tokens for others.
#[test]
fn experts_with_no_tokens_from_some() {
    sizes(&RANKS, |n, len| {
        let many = |from: usize, to: usize| (3 * from + to) % 4 * (len / n / 3);
        let most = len / n;
        let counts: Vec<usize> = (0..n * n).map(|at| many(at / n, at % n)).collect();
        spmd::<Host>(n, |place| {
            let mut comm = place.init()?;
            let rank = comm.rank().index();
            let params = routed::Params { most, k: n * n, counts: &counts };
            let mut bound = routed::bind::<f32, _>(&mut comm, params)?;
            let tokens = filled(comm.device(), n, |to| owns(rank, to, most))?;
            let mut result = filled(comm.device(), n, |_| vec![-1.0; most])?;
            let mut inboxes = Vec::new();
            let mut steps = bound.steps().expert(|i, inbox, mut outbox, stream| {
                inboxes.push((i, inbox.len()));
                stream.launch((&inbox, &mut outbox), |(inbox, outbox), ()| {
                    outbox.copy_from_slice(inbox);
                })
            });
            let buffers = routed::Buffers { tokens: &tokens, result: &mut result };
            bound.run(&comm, buffers, &mut steps)?;
            for (to, result) in result.iter().enumerate() {
                let mut expected = owns(rank, to, most);
                expected[many(rank, to)..].fill(-1.0);
                same(&result.to_vec()?, &expected, "answers");
            }
            let expected: Vec<_> = (0..n).map(|from| (from, many(from, rank))).collect();
            assert_eq!(inboxes, expected);
            comm.finish()
        })
        .unwrap_or_else(|error| panic!("on {n} ranks: {error}"));
    });
}

/// Faces of neighbours; at the domain's faces, what was there.
#[test]
fn halo_of_six_faces() {
    let boxes = [[1, 1, 1], [2, 1, 1], [1, 3, 1], [2, 1, 2], [7, 1, 1], [2, 2, 2], [2, 2, 4]];
    for (n, [nx, ny, nz]) in RANKS.into_iter().zip(boxes) {
        sizes(&[n], |n, len| {
            let face = len / 6;
            spmd::<Host>(n, |place| {
                let mut comm = place.init()?;
                let rank = comm.rank().index();
                let params = halo_3d::Params { x: nx, y: ny, z: nz, face };
                let mut bound = halo_3d::bind::<f32, _>(&mut comm, params)?;
                let own = filled(comm.device(), 6, |i| owns(rank, i, face))?;
                let mut ghost = filled(comm.device(), 6, |_| vec![-1.0; face])?;
                let mut inside = comm.device().zeros::<f32>(face)?;
                let mut seen = 0;
                let mut steps = bound.steps().interior(|_, _| Ok(())).edges(|ghost, _, _| {
                    seen += ghost.len();
                    Ok(())
                });
                let buffers =
                    halo_3d::Buffers { own: &own, ghost: &mut ghost, inside: &mut inside };
                bound.run(&comm, buffers, &mut steps)?;
                assert_eq!(seen, 6);
                let at = [rank / (ny * nz), rank / nz % ny, rank % nz];
                let (extents, strides) = ([nx, ny, nz], [ny * nz, nz, 1]);
                for axis in 0..3 {
                    let before = (at[axis] > 0).then(|| rank - strides[axis]);
                    let after = (at[axis] + 1 < extents[axis]).then(|| rank + strides[axis]);
                    for (low, from) in [before, after].into_iter().enumerate() {
                        let expected = match from {
                            Some(from) => owns(from, 2 * axis + 1 - low, face),
                            None => vec![-1.0; face],
                        };
                        let what = format!("rank {rank}, face {}", 2 * axis + low);
                        same(&ghost[2 * axis + low].to_vec()?, &expected, &what);
                    }
                }
                comm.finish()
            })
            .unwrap_or_else(|error| panic!("on {n} ranks: {error}"));
        });
    }
}
