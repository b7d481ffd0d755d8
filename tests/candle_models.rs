//! candle's models over several ranks: layers that communicate, their gradients, and requests on
//! many threads.

use std::sync::{Arc, Barrier};
use std::thread;

use candle_core::backend::{BackendDevice as _, BackendStorage as _};
use candle_core::{
    CpuStorage, CustomOp1, D, DType as Theirs, Device as OnCandle, Layout, Module, Shape, Tensor,
    Var,
};
use typed_nccl::interop::candle::{self, Parallel, all_gather, ours, storage, storage_mut};
use typed_nccl::{AnyDevice, Communicator, Error, Host, Result, Seat, Sum};

use crate::watched::watched;

const CPU: OnCandle = OnCandle::Cpu;
type Dev = Host<AnyDevice>;

/// A job on several ranks, each a thread.
fn on(n: usize, job: impl Fn(Communicator<Dev>) -> Result<()> + Sync + Send + 'static) {
    watched(move || {
        let job = &job;
        thread::scope(|scope| {
            let ranks: Vec<_> = (Seat::local(n).into_iter().zip(0..))
                .map(|(seat, i)| {
                    scope.spawn(move || Dev::any(i).and_then(|device| job(seat.init(device)?)))
                })
                .collect();
            ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
        })
    });
}

/// Numbers that differ from each other.
fn numbers(shape: (usize, usize), seed: f32) -> Tensor {
    let wave = |i: usize| ((i as f32 + seed) * 1.7).sin();
    let all: Vec<f32> = (0..shape.0 * shape.1).map(wave).collect();
    Tensor::from_vec(all, shape, &CPU).expect("as many as the shape says")
}

#[track_caller]
fn near(found: &Tensor, expected: &Tensor, what: &str) -> Result<()> {
    assert_eq!(found.dims(), expected.dims(), "{what}");
    let apart = (found - expected)?.abs()?.max_all()?.to_scalar::<f32>()?;
    assert!(apart < 1e-4, "{what}: {apart} apart, {found} and not {expected}");
    Ok(())
}

/// This rank's part along a dimension.
fn part(tp: &Parallel<Dev>, x: &Tensor, dim: usize) -> candle_core::Result<Tensor> {
    let len = x.dim(dim)? / tp.size();
    x.narrow(dim, tp.rank().index() * len, len)?.contiguous()
}

/// Columns of a weight on each rank.
struct ColumnParallel {
    weight: Var,
    tp: Parallel<Dev>,
}

impl Module for ColumnParallel {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        self.tp.copy_to_region(x)?.matmul(&self.weight)
    }
}

/// Rows of a weight on each rank.
struct RowParallel {
    weight: Var,
    tp: Parallel<Dev>,
}

impl Module for RowParallel {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        self.tp.reduce_from_region(&x.matmul(&self.weight)?)
    }
}

/// Two layers, their unsharded weights, an input, and the loss and gradients without ranks.
struct Case {
    up: Var,
    down: Var,
    x: Var,
    loss: Tensor,
    gradients: [Tensor; 3],
}

fn loss_of(y: &Tensor) -> candle_core::Result<Tensor> {
    y.sqr()?.mean_all()
}

impl Case {
    fn new() -> Result<Self> {
        let [up, down, x] = [((8, 12), 0.0), ((12, 8), 5.0), ((4, 8), 9.0)]
            .map(|(shape, seed)| Var::from_tensor(&numbers(shape, seed)));
        let (up, down, x) = (up?, down?, x?);
        let loss = loss_of(&x.matmul(&up)?.gelu()?.matmul(&down)?)?;
        let all = loss.backward()?;
        let of = |var: &Var| all.get(var).expect("it has a gradient").clone();
        let gradients = [of(&up), of(&down), of(&x)];
        Ok(Self { up, down, x, loss, gradients })
    }

    fn layers(&self, tp: &Parallel<Dev>) -> Result<(ColumnParallel, RowParallel)> {
        let up =
            ColumnParallel { weight: Var::from_tensor(&part(tp, &self.up, 1)?)?, tp: tp.clone() };
        let down =
            RowParallel { weight: Var::from_tensor(&part(tp, &self.down, 0)?)?, tp: tp.clone() };
        Ok((up, down))
    }
}

#[test]
fn gradients_are_those_of_the_unsharded_model() {
    for n in [1, 2, 4] {
        on(n, |comm| {
            let (case, tp) = (Case::new()?, Parallel::new(comm));
            let (up, down) = case.layers(&tp)?;
            let loss = loss_of(&down.forward(&up.forward(&case.x)?.gelu()?)?)?;
            near(&loss, &case.loss, "loss")?;
            let all = loss.backward()?;
            let of = |var: &Var| all.get(var).expect("it has a gradient");
            let [of_up, of_down, of_x] = &case.gradients;
            near(of(&up.weight), &part(&tp, of_up, 1)?, "columns")?;
            near(of(&down.weight), &part(&tp, of_down, 0)?, "rows")?;
            near(of(&case.x), of_x, "input")?;
            tp.finish()
        });
    }
}

/// Outside of the region each rank has a part of the sequence, and its part of the loss.
#[test]
fn gradients_of_sequence_parallelism() {
    for n in [1, 2, 4] {
        on(n, |comm| {
            let (case, tp) = (Case::new()?, Parallel::new(comm));
            let (up, down) = case.layers(&tp)?;
            let x = Var::from_tensor(&part(&tp, &case.x, 0)?)?;
            let whole = tp.all_gather_to_region(&x, 0)?;
            let y = whole.matmul(&up.weight)?.gelu()?.matmul(&down.weight)?;
            let y = tp.reduce_scatter_from_region(&y, 0)?;
            // The mean over all ranks' parts.
            let all = (loss_of(&y)? / tp.size() as f64)?.backward()?;
            let of = |var: &Var| all.get(var).expect("it has a gradient");
            let [of_up, of_down, of_x] = &case.gradients;
            near(of(&up.weight), &part(&tp, of_up, 1)?, "columns")?;
            near(of(&down.weight), &part(&tp, of_down, 0)?, "rows")?;
            near(of(&x), &part(&tp, of_x, 0)?, "input")?;
            tp.finish()
        });
    }
}

#[test]
fn parts_along_any_dimension_and_their_gradients() {
    for n in [1, 2, 4] {
        on(n, |comm| {
            let tp = Parallel::new(comm);
            for dim in 0..3 {
                let whole = numbers((8, 32), dim as f32).reshape((8, 4, 8))?;
                let x = Var::from_tensor(&whole)?;
                let own = tp.scatter_to_region(&x, dim)?;
                near(&own, &part(&tp, &whole, dim)?, "scattered")?;
                let weights = numbers((8, 32), 3.0).reshape((8, 4, 8))?;
                let y = tp.gather_from_region(&own.sqr()?, dim)?;
                near(&y, &whole.sqr()?, "gathered")?;
                let all = y.mul(&weights)?.sum_all()?.backward()?;
                let expected = (whole.mul(&weights)? * 2.0)?;
                near(all.get(&x).expect("it has a gradient"), &expected, "gradient")?;
            }
            let x = Var::from_tensor(&numbers((4, 4), 0.0))?.t()?;
            near(&tp.gather_from_region(&tp.scatter_to_region(&x, D::Minus1)?, 1)?, &x, "turned")?;
            let error = tp.scatter_to_region(&numbers((3, 5), 0.0), 1);
            assert_eq!(error.is_err(), tp.size() > 1);
            tp.finish()
        });
    }
}

/// Without a gradient to record nothing is copied or called.
#[test]
fn entering_the_region_costs_nothing_without_gradients() {
    on(2, |comm| {
        let tp = Parallel::new(comm);
        if tp.rank().index() == 0 {
            let x = numbers((2, 2), 0.0);
            assert_eq!(tp.copy_to_region(&x)?.id(), x.id());
        }
        tp.finish()
    });
}

/// Both ranks' errors name the layers' lines, as calls of gradients do.
#[test]
fn gradients_that_differ_are_a_mismatch_with_the_layers_lines() {
    on(2, |comm| {
        let tp = Parallel::new(comm);
        let shape = if tp.rank().index() == 0 { (2, 3) } else { (2, 4) };
        let x = Var::from_tensor(&numbers(shape, 0.0))?;
        let (y, line) = (tp.copy_to_region(&x)?, line!());
        let error = y.sum_all()?.backward().expect_err("they differ");
        let text = error.to_string();
        let Some(Error::Mismatch(_)) = ours(&error) else { panic!("{text}") };
        let at = format!("tests/candle_models.rs:{line}");
        assert!(text.contains(&at) && text.contains("6 f32") && text.contains("8 f32"), "{text}");
        // Back in our own type it is what it was.
        assert!(matches!(Error::from(error), Error::Mismatch(_)));
        tp.finish()
    });
}

/// `x` of every rank, summed by an operation that a program writes.
struct SumOfRanks(std::sync::Mutex<Communicator<Dev>>);

impl CustomOp1 for SumOfRanks {
    fn name(&self) -> &'static str {
        "sum of ranks"
    }

    fn cpu_fwd(&self, x: &CpuStorage, at: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let comm = self.0.lock().expect("no panic");
        let mut y = x.device().zeros_impl(at.shape(), x.dtype())?;
        let whole = Layout::contiguous(at.shape());
        let both = (storage(x, at), storage_mut(&mut y, &whole));
        comm.device().lend(both, |(x, y)| comm.all_reduce(x, y, Sum))?;
        Ok((y, at.shape().clone()))
    }
}

#[test]
fn a_storage_is_lent_in_an_operation_of_the_program() {
    on(2, |comm| {
        let op = SumOfRanks(std::sync::Mutex::new(comm));
        let x = numbers((4, 3), 0.0);
        let y = x.narrow(0, 1, 2)?.apply_op1_no_bwd(&op)?;
        near(&y, &(x.narrow(0, 1, 2)? * 2.0)?, "rows in the middle")?;
        let error = x.t()?.apply_op1_no_bwd(&op).expect_err("another order");
        assert!(matches!(ours(&error), Some(Error::NotAdoptable(_))), "{error}");
        let ints = Tensor::zeros(2, Theirs::I16, &CPU)?.apply_op1_no_bwd(&op);
        assert!(ours(&ints.expect_err("NCCL has no i16")).is_some_and(Error::is_refusal));
        op.0.into_inner().expect("no panic").finish()
    });
}

#[test]
fn an_error_is_itself_again_after_candle() {
    fn layer(comm: &Communicator<Dev>) -> candle_core::Result<Tensor> {
        let ints = Tensor::zeros(4, Theirs::I16, &CPU)?;
        Ok(all_gather(comm, &ints)?)
    }
    on(1, |comm| {
        for error in [
            layer(&comm).expect_err("NCCL has no i16"),
            layer(&comm).expect_err("NCCL has no i16").context("layer 3"),
            layer(&comm).expect_err("NCCL has no i16").with_path("model.safetensors"),
            candle_core::Context::context(layer(&comm), "layer 3").expect_err("NCCL has no i16"),
        ] {
            assert!(ours(&error).is_some_and(Error::is_refusal), "{error}");
            assert!(matches!(Error::from(error), Error::NotAdoptable(_)));
        }
        let theirs = Tensor::zeros(4, Theirs::F32, &CPU)?.reshape(5).expect_err("of four");
        assert!(ours(&theirs).is_none() && matches!(Error::from(theirs), Error::Other(_)));
        comm.finish()
    });
}

/// candle-nn's `func`.
struct Func<F>(F);

impl<F: Fn(&Tensor) -> candle_core::Result<Tensor>> Module for Func<F> {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        self.0(x)
    }
}

/// Requests of one model on six threads, which come in another order on each rank.
#[test]
fn requests_on_six_threads_in_orders_of_the_ranks_own() {
    const REQUESTS: usize = 6;
    for n in [2, 4] {
        on(n, |comm| {
            let (case, tp) = (Case::new()?, Parallel::ordered(comm)?);
            let (up, down) = case.layers(&tp)?;
            let rank = tp.rank().index();
            let model = move |x: &Tensor| down.forward(&up.forward(x)?.gelu()?);
            let model: Arc<dyn Module + Send + Sync> = Arc::new(Func(model));
            let (tp, all) = (&tp, &Barrier::new(REQUESTS));
            thread::scope(|scope| {
                let threads: Vec<_> = (0..REQUESTS)
                    .map(|place| {
                        let (model, case) = (model.clone(), &case);
                        scope.spawn(move || -> candle_core::Result<()> {
                            // The ranks' threads have the requests in other orders.
                            let request =
                                (place * if rank % 2 == 0 { 1 } else { 5 } + rank) % REQUESTS;
                            for step in 0..20 {
                                all.wait();
                                let x = numbers((4, 8), (10 * request + step) as f32);
                                let y =
                                    tp.request(format!("{request}/{step}"), || model.forward(&x))?;
                                let expected = x.matmul(&case.up)?.gelu()?.matmul(&case.down)?;
                                near(&y, &expected, "a request's own output")?;
                            }
                            Ok(())
                        })
                    })
                    .collect();
                threads.into_iter().try_for_each(|it| it.join().expect("no panic"))
            })?;
            drop(model);
            tp.clone().finish()
        });
    }
}

#[test]
fn a_call_outside_of_a_request_is_refused() {
    on(2, |comm| {
        let tp = Parallel::ordered(comm)?;
        let error = tp.reduce_from_region(&numbers((2, 2), 0.0)).expect_err("no request");
        let text = error.to_string();
        assert!(ours(&error).is_some_and(Error::is_refusal), "{text}");
        assert!(text.contains("tests/candle_models.rs") && text.contains("numbered"), "{text}");
        // Gradients are of the request too.
        let x = Var::from_tensor(&numbers((2, 2), 0.0))?;
        let all = tp.request("train", || tp.copy_to_region(&x)?.sum_all()?.backward())?;
        near(all.get(&x).expect("it has a gradient"), &x.ones_like()?.affine(2.0, 0.0)?, "sum")?;
        tp.finish()
    });
}

#[test]
fn finishing_takes_the_communicator_out_of_a_model_that_lives_on() {
    on(2, |comm| {
        let (case, tp) = (Case::new()?, Parallel::new(comm));
        let (up, _) = case.layers(&tp)?;
        let y = up.forward(&case.x)?;
        let device = candle::device(tp.device())?;
        assert!(device.is_cpu());
        tp.clone().finish()?;
        let error = y.sum_all()?.backward().expect_err("its gradient has no communicator");
        assert!(error.to_string().contains("was finished before"), "{error}");
        tp.finish().expect_err("it was finished");
        Ok(())
    });
}
