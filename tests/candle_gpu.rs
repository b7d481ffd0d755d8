//! candle's tensors on GPUs: lent in place, ordered with candle's stream. Needs the feature
//! `candle-cuda`; without a GPU it reports that it was skipped.

use std::sync::mpsc::channel;

use candle_core::{
    DType as Theirs, Device as OnCandle, Storage, Tensor, cuda_backend::CudaStorageSlice,
};
use cudarc::driver::DevicePtr;
use typed_nccl::error::AdoptFault;
use typed_nccl::interop::candle::{self, between, in_place, in_place_each};
use typed_nccl::{AnyDevice, Communicator, Cuda, Error, Host, Result, Scoped, Seat, Sum};

type Dev<'id> = Cuda<Scoped<'id>>;

const SIDE: usize = 2048;

/// Two ranks, or one if there is a single GPU.
fn ranks(
    job: impl for<'id> Fn(Communicator<Dev<'id>>, &OnCandle) -> Result<()> + Sync,
) -> Result<()> {
    let gpus = match Cuda::count() {
        Ok(gpus) if gpus > 0 => gpus.min(2),
        _ => {
            println!("SKIPPED: no GPU");
            return Ok(());
        }
    };
    Cuda::spmd(gpus, |place| {
        let comm = place.init()?;
        let ordinal = comm.device().ordinal() as usize;
        let device = if comm.device().ordinal() % 2 == 0 {
            candle::device(comm.device())?
        } else {
            // CUDA's per-thread stream.
            OnCandle::new_cuda(ordinal)?
        };
        job(comm, &device)
    })
    .map(drop)
}

/// Ones, after the GPU has worked for a while: sums of `SIDE` times 1 / `SIDE`.
fn late_ones(device: &OnCandle) -> Result<Tensor> {
    let mean = Tensor::full(1.0_f32 / SIDE as f32, (SIDE, SIDE), device)?;
    let mut x = Tensor::ones((SIDE, SIDE), Theirs::F32, device)?;
    for _ in 0..20 {
        x = x.matmul(&mean)?;
    }
    Ok(x)
}

/// Whether all elements equal this value.
#[track_caller]
fn all_are(x: &Tensor, value: f32) -> Result<()> {
    let (least, most) = (x.min_all()?.to_scalar::<f32>()?, x.max_all()?.to_scalar::<f32>()?);
    let near = |x: f32| (x - value).abs() < 1e-3;
    assert!(near(least) && near(most), "{least} to {most}, and not {value}");
    Ok(())
}

/// CUDA's address of the first element.
fn address(tensor: &Tensor) -> u64 {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else { panic!("no GPU's") };
    let CudaStorageSlice::F32(slice) = &storage.slice else { panic!("no f32") };
    let stream = slice.stream().clone();
    slice.device_ptr(&stream).0 + 4 * layout.start_offset() as u64
}

#[test]
fn our_uses_come_after_candles_and_candles_after_ours() -> Result<()> {
    ranks(|comm, device| {
        let n = comm.size() as f32;
        for turn in 0..4 {
            let x = late_ones(device)?;
            in_place(comm.device(), &x, |x| comm.all_reduce_in_place(x, Sum))?;
            let y = x.affine(2.0, turn as f64)?;
            // The memory is candle's again, for the next tensor.
            drop(x);
            let next = late_ones(device)?;
            let z = next.zeros_like()?;
            between(comm.device(), &next, &z, |x, y| comm.all_reduce(x, y, Sum))?;
            drop(next);
            let other = Tensor::full(-1.0_f32, (SIDE, SIDE), device)?;
            all_are(&y, 2.0 * n + turn as f32)?;
            all_are(&z, n)?;
            all_are(&other, -1.0)?;
        }
        comm.finish()
    })
}

#[test]
fn a_tensor_is_lent_where_it_is() -> Result<()> {
    ranks(|comm, device| {
        let n = comm.size() as f32;
        let all = Tensor::ones((8, 4), Theirs::F32, device)?;
        let middle = all.narrow(0, 2, 3)?;
        let (sent, found) = channel();
        in_place_each(comm.device(), &[&middle], |x| {
            comm.all_reduce_in_place(&mut x[0], Sum)?;
            comm.stream().launch(x[0].typed::<f32>()?.as_slice(), move |x, _| {
                sent.send(x.as_ptr().addr() as u64).expect("received");
            })
        })?;
        assert_eq!(found.recv().expect("it ran"), address(&middle));
        all_are(&middle, n)?;
        all_are(&all.narrow(0, 0, 2)?, 1.0)?;
        all_are(&all.narrow(0, 5, 3)?, 1.0)?;
        for dtype in [Theirs::F64, Theirs::BF16, Theirs::F16, Theirs::U8, Theirs::U32, Theirs::I64]
        {
            let x = Tensor::ones(1000, dtype, device)?;
            in_place(comm.device(), &x, |x| comm.all_reduce_in_place(x, Sum))?;
            all_are(&x.to_dtype(Theirs::F32)?, n)?;
        }
        comm.finish()
    })
}

#[test]
fn a_tensors_own_methods_are_errors_in_the_closure_that_writes_it() -> Result<()> {
    ranks(|comm, device| {
        let n = comm.size() as f32;
        let (x, other) = (
            Tensor::ones((4, 4), Theirs::F32, device)?,
            Tensor::ones((4, 4), Theirs::F32, device)?,
        );
        let at = address(&x);
        in_place(comm.device(), &x, |view| {
            x.to_vec2::<f32>().expect_err("read");
            x.sum_all().expect_err("reduced");
            x.matmul(&other).expect_err("multiplied");
            x.t().and_then(|x| x.contiguous()).expect_err("copied");
            in_place(comm.device(), &x.clone(), |_| Ok(())).expect_err("lent");
            comm.device().lend(&x, |_| Ok(())).expect_err("lent");
            comm.all_reduce_in_place(view, Sum)
        })?;
        assert_eq!(address(&x), at);
        all_are(&x, n)?;
        comm.finish()
    })
}

#[test]
fn a_tensor_elsewhere_is_a_named_error() -> Result<()> {
    ranks(|comm, device| {
        let fault = |error| match error {
            Err(Error::NotAdoptable(refusal)) => refusal.fault,
            other => panic!("{other:?}"),
        };
        let here = Tensor::ones(4, Theirs::F32, device)?;
        let on_cpu = here.to_device(&OnCandle::Cpu)?;
        let found = fault(comm.device().lend(&on_cpu, |_| Ok(())));
        assert_eq!(found, AdoptFault::HostMemory { pinned: false });
        let ordinal = comm.device().ordinal();
        let host: Communicator<Host<AnyDevice>> = Seat::local(1).remove(0).init(Host::any(0)?)?;
        assert_eq!(
            fault(in_place(host.device(), &here, |_| Ok(()))),
            AdoptFault::DeviceMemory { ordinal }
        );
        host.finish()?;
        if comm.size() > 1 {
            let there = Tensor::ones(4, Theirs::F32, &OnCandle::new_cuda(1 - ordinal as usize)?)?;
            let found = comm.device().lend(&there, |_| Ok(()));
            assert!(matches!(found, Err(Error::OtherDevice(_))), "{found:?}");
        }
        comm.finish()
    })
}
