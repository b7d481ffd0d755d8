//! candle's tensors on the host: lent where they are, with candle's lock held.

use std::sync::mpsc::channel;
use std::time::Duration;
use std::{panic, thread};

use candle_core::op::BackpropOp;
use candle_core::{
    CpuStorage, DType as Theirs, Device as OnCandle, Storage, Tensor, Var, WithDType,
};
use typed_nccl::error::AdoptFault;
use typed_nccl::interop::candle::{
    all_gather, all_reduce, all_to_all, between, in_place, in_place_each, reduce_scatter,
};
use typed_nccl::{
    AnyDevice, Avg, Communicator, DType, Element, Error, Host, Max, Numeric, Result, Seat,
    SliceMut, Sum, bf16, f16,
};

use crate::watched::watched;

const CPU: OnCandle = OnCandle::Cpu;
type Dev = Host<AnyDevice>;

/// Two ranks.
fn on_two(job: impl Fn(Communicator<Dev>) -> Result<()> + Sync + Send + 'static) {
    watched(move || {
        let job = &job;
        thread::scope(|scope| {
            let ranks: Vec<_> = (Seat::local(2).into_iter().zip(0..))
                .map(|(seat, i)| {
                    scope.spawn(move || Dev::any(i).and_then(|device| job(seat.init(device)?)))
                })
                .collect();
            ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
        })
    });
}

fn alone() -> Result<Communicator<Dev>> {
    Seat::local(1).remove(0).init(Dev::any(0)?)
}

/// The address of candle's first element.
fn address(tensor: &Tensor) -> usize {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(CpuStorage::F32(elements)) = &*storage else { panic!("no f32 on the CPU") };
    elements[layout.start_offset()..].as_ptr().addr()
}

#[track_caller]
fn refused(error: Error, says: &[&str]) -> AdoptFault {
    let text = error.to_string();
    for part in says {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
    match error {
        Error::NotAdoptable(refusal) => {
            assert_eq!(refusal.library, Some("candle"));
            assert_eq!(refusal.site.file(), file!(), "the site is the caller's");
            refusal.fault
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_tensor_is_lent_where_it_is() {
    on_two(|comm| {
        let rank = comm.rank().index() as f32;
        let x = Tensor::new(&[[rank, 1.0], [2.0, 3.0]], &CPU)?;
        let y = Var::zeros((2, 2), Theirs::F32, &CPU)?;
        let expected = [address(&x), address(&y)];
        let (sent, found) = channel();
        between(comm.device(), &x, &y, |x, y| {
            assert_eq!((x.dtype(), x.len(), y.len()), (DType::F32, 4, 4));
            comm.all_reduce(x, y, Sum)?;
            let both = (&x.typed::<f32>()?, &mut y.typed::<f32>()?);
            comm.stream().launch(both, move |(x, y), ()| {
                sent.send([x.as_ptr().addr(), y.as_ptr().addr()]).expect("received");
            })
        })?;
        assert_eq!(found.recv().expect("it ran"), expected);
        assert_eq!(y.to_vec2::<f32>()?, [[1.0, 2.0], [4.0, 6.0]]);
        // Shared: the same tensor twice, and a variable.
        comm.device().lend((&y, &y), |(a, b)| {
            assert_eq!(a.typed::<f32>()?.len(), b.len());
            Ok(())
        })?;
        assert_eq!((address(&x), address(&y)), (expected[0], expected[1]));
        comm.finish()
    });
}

fn sums<T: Numeric + WithDType>(comm: &Communicator<Dev>, two: T) -> Result<()> {
    let x = Tensor::full(T::one(), (3, 5), &CPU)?;
    in_place(comm.device(), &x, |x| {
        assert_eq!(x.dtype(), <T as Element>::DTYPE);
        let other = x.typed::<i8>().map(drop);
        assert!(matches!(other, Err(Error::OtherDType(_))), "{other:?}");
        comm.all_reduce_in_place(&mut x.typed::<T>()?, Max)?;
        comm.all_reduce_in_place(x, Sum)
    })?;
    assert!(x.flatten_all()?.to_vec1::<T>()?.iter().all(|x| *x == two), "{two:?}");
    Ok(())
}

#[test]
fn each_type_that_nccl_has_is_lent_under_it() {
    on_two(|comm| {
        sums::<f32>(&comm, 2.0)?;
        sums::<f64>(&comm, 2.0)?;
        sums::<f16>(&comm, f16::from_f32(2.0))?;
        sums::<bf16>(&comm, bf16::from_f32(2.0))?;
        sums::<u8>(&comm, 2)?;
        sums::<u32>(&comm, 2)?;
        sums::<i32>(&comm, 2)?;
        sums::<i64>(&comm, 2)?;
        let x = Tensor::ones(4, Theirs::F8E4M3, &CPU)?;
        in_place(comm.device(), &x, |x| {
            assert_eq!(x.dtype(), DType::F8E4M3);
            x.typed::<typed_nccl::F8E4M3>().map(drop)
        })?;
        comm.finish()
    });
}

#[test]
fn a_piece_of_a_tensor_is_lent_and_what_is_around_it_is_left() {
    on_two(|comm| {
        let all = Tensor::arange(0.0_f32, 12.0, &CPU)?.reshape((4, 3))?;
        let middle = all.narrow(0, 1, 2)?;
        in_place(comm.device(), &middle, |x| {
            assert_eq!(x.len(), 6);
            comm.all_reduce_in_place(x, Sum)
        })?;
        let rows = [[0.0, 1.0, 2.0], [6.0, 8.0, 10.0], [12.0, 14.0, 16.0], [9.0, 10.0, 11.0]];
        assert_eq!(all.to_vec2::<f32>()?, rows);
        let one = Tensor::new(comm.rank().index() as f32, &CPU)?;
        in_place(comm.device(), &one, |x| comm.all_reduce_in_place(x, Sum))?;
        assert_eq!(one.to_scalar::<f32>()?, 1.0);
        comm.finish()
    });
}

/// Otherwise one rank's elements would be added to other elements of the other ranks.
#[test]
fn a_transposed_tensor_is_not_lent() {
    on_two(|comm| {
        let (device, rank) = (comm.device(), comm.rank().index());
        let x = Tensor::arange(0.0_f32, 6.0, &CPU)?.reshape((2, 3))?;
        let turned = x.t()?.contiguous()?.t()?;
        assert_eq!(turned.to_vec2::<f32>()?, x.to_vec2::<f32>()?);
        if rank == 0 {
            let says = ["[2, 3]", "[1, 2]", "C order", "`x.contiguous()?`", "`x.permute(..)?`"];
            let (shape, strides) = (vec![2, 3], vec![1, 2]);
            let fault = AdoptFault::OtherOrder { shape, strides };
            let y = x.copy()?;
            for error in [
                device.lend(&turned, |x| x.typed::<f32>().map(drop)).expect_err("refused"),
                in_place(device, &turned, |_| Ok(())).expect_err("refused"),
                in_place_each(device, &[&x, &turned], |_| Ok(())).expect_err("refused"),
                between(device, &turned, &y, |_, _| Ok(())).expect_err("refused"),
                between(device, &y, &turned, |_, _| Ok(())).expect_err("refused"),
            ] {
                assert_eq!(refused(error, &says), fault);
            }
        }
        // The suggested fix is the same memory, in C order.
        let same = turned.t()?;
        in_place(device, &same, |x| comm.all_reduce_in_place(x, Sum))?;
        assert_eq!(turned.to_vec2::<f32>()?, [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]);
        // A dimension of one element is in any order.
        let row = Tensor::ones((1, 4), Theirs::F32, &CPU)?.t()?.unsqueeze(0)?;
        in_place(device, &row, |x| comm.all_reduce_in_place(x, Sum))?;
        assert_eq!(row.flatten_all()?.to_vec1::<f32>()?, [2.0; 4]);
        comm.finish()
    });
}

#[test]
fn gradients_are_averaged_where_they_are() {
    on_two(|comm| {
        let rank = comm.rank().index() as f32;
        let vars =
            [Var::new(&[[1.0_f32, 2.0], [3.0, 4.0]], &CPU)?, Var::new(&[[0.5_f32, 0.5]], &CPU)?];
        let x = Tensor::new(&[[rank, 1.0]], &CPU)?;
        let y = x.matmul(&vars[0].t()?)?.add(vars[1].as_tensor())?;
        let gradients = y.sum_all()?.backward()?;
        let of = |var: &Var| gradients.get(var).expect("it has one");
        let each = [of(&vars[0]), of(&vars[1])];
        let before = each.map(address);
        in_place_each(comm.device(), &each, |each| {
            assert_eq!([each[0].len(), each[1].len()], [4, 2]);
            each.iter_mut().try_for_each(|x| comm.all_reduce_in_place(x, Avg))
        })?;
        assert_eq!(each.map(address), before);
        assert_eq!(each[0].to_vec2::<f32>()?, [[0.5, 1.0], [0.5, 1.0]]);
        assert_eq!(each[1].to_vec2::<f32>()?, [[1.0, 1.0]]);
        // In the order given, whatever the order of locking.
        for order in [[0, 1], [1, 0]] {
            let named = order.map(|i| each[i]);
            in_place_each(comm.device(), &named, |x| {
                assert_eq!(
                    x.iter().map(|x| x.len()).collect::<Vec<_>>(),
                    named.map(|x| x.elem_count())
                );
                Ok(())
            })?;
        }
        comm.device().lend(vec![each[0], each[1]], |all| {
            assert_eq!([all[0].len(), all[1].len()], [4, 2]);
            Ok(())
        })?;
        comm.finish()
    });
}

#[test]
fn other_threads_do_not_see_what_is_written_meanwhile() {
    watched(|| {
        let comm = alone()?;
        let x = Tensor::zeros(1000, Theirs::F32, &CPU)?;
        in_place(comm.device(), &x, |y| {
            let read = thread::scope(|scope| scope.spawn(|| x.to_vec1::<f32>()).join());
            read.expect("no panic").expect_err("it is lent");
            let mut y: SliceMut<'_, f32, _> = y.typed()?;
            comm.stream().launch(&mut y, |y, ()| y.fill(7.0))
        })?;
        assert_eq!(x.to_vec1::<f32>()?, [7.0; 1000]);

        // A variable lent for reading cannot be set meanwhile.
        let (var, other) = (Var::from_tensor(&x)?, x.ones_like()?);
        let (sent, set) = channel();
        let writer = comm.device().lend(&var, |_| {
            let var = var.clone();
            let writer = thread::spawn(move || sent.send(var.set(&other)).expect("received"));
            let early = set.recv_timeout(Duration::from_millis(100));
            assert!(early.is_err(), "it is set while it is lent");
            Ok(writer)
        })?;
        set.recv().expect("sent")?;
        writer.join().expect("no panic");
        assert_eq!(var.to_vec1::<f32>()?, [1.0; 1000]);
        comm.finish()
    });
}

#[test]
fn a_tensors_own_methods_are_errors_in_the_closure_that_writes_it() {
    watched(|| {
        let comm = alone()?;
        let device = comm.device();
        let var = Var::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0], (2, 2), &CPU)?;
        let (x, other) = (var.as_tensor(), Tensor::ones((2, 2), Theirs::F32, &CPU)?);
        let (clone, view, free) = (x.clone(), x.narrow(0, 1, 1)?, x.ones_like()?);
        let at = address(x);
        let use_it = || {
            x.to_vec2::<f32>().expect_err("read");
            view.to_vec2::<f32>().expect_err("read");
            x.sum_all().expect_err("reduced");
            x.matmul(&free).expect_err("multiplied");
            clone.add(&free).expect_err("added");
            x.exp().expect_err("mapped");
            x.t().and_then(|x| x.contiguous()).expect_err("copied");
            var.set(&free).expect_err("set");
            clone.zero_set().expect_err("set");
        };
        let in_use = |error| {
            let fault = refused(error, &["in use by `lend` of candle at tests/candle.rs:"]);
            assert!(matches!(fault, AdoptFault::InUse { .. }));
        };
        let lend_it = || {
            in_use(device.lend(x, |_| Ok(())).expect_err("lent"));
            in_use(in_place(device, &clone, |_| Ok(())).expect_err("lent"));
            in_use(in_place_each(device, &[&other, &view], |_| Ok(())).expect_err("lent"));
            in_use(between(device, x, &other, |_, _| Ok(())).expect_err("lent"));
            in_use(between(device, &other, x, |_, _| Ok(())).expect_err("lent"));
        };
        let fill = |x: &mut SliceMut<'_, f32, Dev>, value| {
            comm.stream().launch(x, move |x, ()| x.fill(value))
        };
        in_place(device, &x.clone(), |x| {
            use_it();
            lend_it();
            fill(&mut x.typed()?, 5.0)
        })?;
        assert_eq!(x.to_vec2::<f32>()?, [[5.0, 5.0], [5.0, 5.0]]);
        in_place_each(device, &[&other, &view], |each| {
            use_it();
            in_use(device.lend(x, |_| Ok(())).expect_err("lent"));
            fill(&mut each[1].typed()?, 6.0)
        })?;
        assert_eq!(x.to_vec2::<f32>()?, [[5.0, 5.0], [6.0, 6.0]]);
        between(device, &other, x, |from, to| {
            other.sum_all()?;
            in_use(in_place(device, &other, |_| Ok(())).expect_err("lent"));
            use_it();
            comm.all_reduce(from, to, Sum)
        })?;
        // While lent for reading, anything may read it, and it cannot be lent for writing.
        device.lend(x, |_| {
            assert_eq!(x.sum_all()?.to_scalar::<f32>()?, 4.0);
            device.lend(&view, |_| Ok(()))?;
            in_use(in_place(device, &clone, |_| Ok(())).expect_err("lent"));
            in_use(between(device, &other, &view, |_, _| Ok(())).expect_err("lent"));
            between(device, &view, &other.narrow(0, 1, 1)?, |x, y| comm.all_reduce(x, y, Sum))
        })?;
        assert_eq!((address(x), x.to_vec2::<f32>()?), (at, vec![vec![1.0; 2]; 2]));
        var.set(&other.affine(2.0, 0.0)?)?;
        assert_eq!(clone.to_vec2::<f32>()?, [[2.0, 2.0], [2.0, 2.0]]);
        comm.finish()
    });
}

#[test]
fn clones_that_are_lent_at_once_exclude_each_other() {
    const LEN: usize = 4000;
    const LOANS: u32 = 300;
    watched(|| {
        let x = Tensor::zeros(LEN, Theirs::F32, &CPU)?;
        let at = address(&x);
        let writer = &|_: u32| {
            let (comm, x) = (alone()?, x.clone());
            let mut sum = 0;
            while sum < LOANS {
                let added = in_place(comm.device(), &x, |x| {
                    comm.stream().launch(&mut x.typed::<f32>()?, |x, ()| {
                        x.iter_mut().for_each(|x| *x += 1.0);
                    })
                });
                match added {
                    Ok(()) => sum += 1,
                    Err(error) => drop(refused(error, &["in use"])),
                }
            }
            comm.finish()
        };
        // All elements are of one loan, or there is an error.
        let reader = || {
            let mut last = 0.0;
            while last < 2.0 * LOANS as f32 {
                if let Ok(found) = x.to_vec1::<f32>() {
                    assert!(found[0] >= last && found.iter().all(|x| *x == found[0]));
                    last = found[0];
                }
                let _ = x.sum_all();
            }
        };
        thread::scope(|scope| {
            let read = scope.spawn(reader);
            let written = [0, 1].map(|i| scope.spawn(move || writer(i)));
            written.into_iter().try_for_each(|it| it.join().expect("no panic"))?;
            read.join().expect("no panic");
            Ok::<_, Error>(())
        })?;
        assert_eq!((address(&x), x.to_vec1::<f32>()?), (at, vec![2.0 * LOANS as f32; LEN]));
        Ok(())
    });
}

#[test]
fn a_loan_ends_with_an_error_and_with_a_panic() {
    watched(|| {
        let comm = alone()?;
        let x = Tensor::zeros(4, Theirs::F32, &CPU)?;
        let y = Tensor::zeros(4, Theirs::F32, &CPU)?;
        let fill = |x: &mut SliceMut<'_, f32, Dev>, value| {
            comm.stream().launch(x, move |x, ()| x.fill(value))
        };
        let error = in_place(comm.device(), &x, |x| {
            fill(&mut x.typed()?, 1.0)?;
            Err::<(), _>(Error::other("enough"))
        });
        assert_eq!(error.expect_err("it failed").to_string(), "enough");
        assert_eq!(x.to_vec1::<f32>()?, [1.0; 4]);
        let both = in_place_each(comm.device(), &[&x, &y], |_| Err::<(), _>(Error::other("no")));
        assert_eq!(both.expect_err("it failed").to_string(), "no");
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            in_place_each(comm.device(), &[&y, &x], |each| {
                fill(&mut each[1].typed()?, 2.0)?;
                panic::resume_unwind(Box::new("enough"));
                #[expect(unreachable_code)]
                Ok(())
            })
        }));
        panicked.expect_err("it panicked");
        assert_eq!(x.to_vec1::<f32>()?, [2.0; 4]);
        comm.finish()
    });
}

/// Whatever the closure makes of a lent tensor is the tensor again afterwards, or stays an error.
#[test]
fn what_is_made_of_a_tensor_while_it_is_lent() {
    watched(|| {
        let comm = alone()?;
        let x = Tensor::arange(0.0_f32, 4.0, &CPU)?.reshape((2, 2))?;
        let at = address(&x);
        let made = in_place(comm.device(), &x, |y| {
            // The text "[dims 2, 2; dtype f32]" may be printed, but not the elements.
            let print = panic::AssertUnwindSafe(|| format!("{x}"));
            assert!(!panic::catch_unwind(print).is_ok_and(|text| text.contains("3.")));
            comm.stream().launch(&mut y.typed::<f32>()?, |y, ()| y.fill(5.0))?;
            Ok([Ok(x.clone()), x.t(), x.narrow(0, 1, 1), x.reshape(4), Ok(x.detach()), x.copy()])
        })?;
        let [clone, turned, row, flat, detached, copy] = made;
        for same in [clone?, turned?, detached?] {
            assert_eq!((address(&same), same.to_vec2::<f32>()?), (at, vec![vec![5.0; 2]; 2]));
        }
        assert_eq!(
            (row?.to_vec2::<f32>()?, flat?.to_vec1::<f32>()?),
            (vec![vec![5.0; 2]], vec![5.0; 4])
        );
        assert!(copy.and_then(|copy| copy.to_vec2::<f32>()).is_err());
        comm.finish()
    });
}

/// Of two views of one storage on two threads, one is lent; both are intact after panics and
/// errors.
#[test]
fn views_on_two_threads_are_whole_after_panics() {
    const LOANS: usize = 200;
    watched(|| {
        let x = Tensor::zeros((2, 100), Theirs::F32, &CPU)?;
        let (at, views) = (address(&x), [x.narrow(0, 0, 1)?, x.narrow(0, 1, 1)?]);
        let other = Tensor::ones((1, 100), Theirs::F32, &CPU)?;
        let write = &|view: &Tensor| {
            let comm = alone()?;
            let mut added = 0;
            while added < LOANS {
                let outcome = panic::catch_unwind(panic::AssertUnwindSafe(|| {
                    in_place(comm.device(), view, |view| {
                        let mut view = view.typed::<f32>()?;
                        comm.stream().launch(&mut view, |view, ()| {
                            view.iter_mut().for_each(|x| *x += 1.0)
                        })?;
                        match added % 3 {
                            0 => Ok(()),
                            1 => Err(Error::other("enough")),
                            _ => panic::resume_unwind(Box::new("enough")),
                        }
                    })
                }));
                match outcome {
                    Ok(Err(error @ Error::NotAdoptable(_))) => drop(refused(error, &["in use"])),
                    _ => added += 1,
                }
            }
            comm.finish()
        };
        thread::scope(|scope| {
            let writers = views.each_ref().map(|view| scope.spawn(move || write(view)));
            writers.into_iter().try_for_each(|it| it.join().expect("no panic"))
        })?;
        assert_eq!((address(&x), x.to_vec2::<f32>()?), (at, vec![vec![LOANS as f32; 100]; 2]));
        let comm = alone()?;
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            between(comm.device(), &other, &views[0], |from, to| {
                comm.all_reduce(from, to, Sum)?;
                panic::resume_unwind(Box::new("enough"));
                #[expect(unreachable_code)]
                Ok(())
            })
        }));
        panicked.expect_err("it panicked");
        assert_eq!(views[0].to_vec2::<f32>()?, other.to_vec2::<f32>()?);
        comm.finish()
    });
}

#[test]
fn what_cannot_be_lent_is_a_named_error() {
    watched(|| {
        let comm = alone()?;
        let device = comm.device();
        let refuse = |x: &Tensor, says: &[&str]| {
            let fault = refused(device.lend(x, |_| Ok(())).expect_err("refused"), says);
            let again = in_place(device, x, |_| Ok(())).expect_err("refused");
            assert_eq!(refused(again, says), fault);
            fault
        };
        let x = Tensor::zeros((3, 4), Theirs::F32, &CPU)?;

        let column = refuse(&x.narrow(1, 0, 2)?, &["[3, 2]", "[4, 1]", "`x.contiguous()?`"]);
        assert!(matches!(column, AdoptFault::Strided { .. }));
        let repeated = refuse(&x.narrow(0, 0, 1)?.broadcast_as((3, 4))?, &["`x.contiguous()?`"]);
        assert!(matches!(repeated, AdoptFault::Strided { .. }));

        for (dtype, name) in [(Theirs::I16, "i16"), (Theirs::F8E8M0, "f8e8m0")] {
            let x = match dtype {
                Theirs::I16 => Tensor::zeros(4, dtype, &CPU)?,
                _ => from(Storage::Cpu(CpuStorage::F8E8M0(vec![0; 4])), 4),
            };
            let found = refuse(&x, &[name, "NCCL does not have"]);
            assert_eq!(found, AdoptFault::NoSuchType { found: name.to_owned() });
        }

        assert_eq!(
            refuse(&Tensor::zeros((0, 4), Theirs::F32, &CPU)?, &["no elements"]),
            AdoptFault::Empty
        );

        let short = from(Storage::Cpu(CpuStorage::F32(vec![0.0; 4])), 6).narrow(0, 2, 4)?;
        let fault = refuse(&short, &["4 elements from number 2 on", "its memory has 4"]);
        assert_eq!(fault, AdoptFault::Outside { needed: 4, first: 2, len: 4 });

        let pieces = [x.narrow(0, 0, 1)?, x.narrow(0, 1, 1)?];
        let [a, b] = &pieces;
        for error in [
            between(device, a, b, |_, _| Ok(())).expect_err("refused"),
            between(device, &x, &x, |_, _| Ok(())).expect_err("refused"),
            in_place_each(device, &[a, b], |_| Ok(())).expect_err("refused"),
        ] {
            let fault = refused(error, &["in use by `lend` of candle at tests/candle.rs:"]);
            assert!(matches!(fault, AdoptFault::InUse { .. }));
        }
        // One bad tensor among several: nothing is lent.
        let column = Tensor::zeros((3, 4), Theirs::F32, &CPU)?.narrow(1, 0, 2)?;
        let some = in_place_each(device, &[&x, &column], |_| Ok(()));
        refused(some.expect_err("refused"), &["`x.contiguous()?`"]);
        in_place(device, &x, |_| Ok(()))?;
        comm.finish()
    });
}

/// A tensor of a program that does not check.
fn from(storage: Storage, len: usize) -> Tensor {
    Tensor::from_storage(storage, len, BackpropOp::none(), false)
}

/// Two rows of three columns: 0 to 5, and as many hundreds as the rank's number.
fn rows(rank: usize) -> Result<Tensor> {
    Ok((Tensor::arange(0_f32, 6.0, &CPU)?.reshape((2, 3))? + 100.0 * rank as f64)?)
}

#[test]
fn collectives_that_make_their_tensor() {
    on_two(|comm| {
        let rank = comm.rank().index();
        let x = rows(rank)?;
        // In C order it would be another matrix.
        let sum = all_reduce(&comm, &x.t()?, Sum)?;
        assert_eq!(sum.to_vec2::<f32>()?, [[100.0, 106.0], [102.0, 108.0], [104.0, 110.0]]);
        let all = all_gather(&comm, &x)?;
        assert_eq!(all.to_vec2::<f32>()?, Tensor::cat(&[rows(0)?, rows(1)?], 0)?.to_vec2::<f32>()?);
        let part = reduce_scatter(&comm, &x, Max)?;
        assert_eq!(part.to_vec2::<f32>()?, rows(1)?.narrow(0, rank, 1)?.to_vec2::<f32>()?);
        let swapped = all_to_all(&comm, &x)?;
        let from = |of: usize| Ok::<_, Error>(rows(of)?.narrow(0, rank, 1)?);
        let expected = Tensor::cat(&[from(0)?, from(1)?], 0)?;
        assert_eq!(swapped.to_vec2::<f32>()?, expected.to_vec2::<f32>()?);
        // What was given stays as it was.
        assert_eq!(x.to_vec2::<f32>()?, rows(rank)?.to_vec2::<f32>()?);
        comm.finish()
    });
}

#[test]
fn rows_that_cannot_be_shared_out() {
    on_two(|comm| {
        let x = Tensor::zeros((3, 2), Theirs::F32, &CPU)?;
        let error = reduce_scatter(&comm, &x, Sum).expect_err("three rows on two ranks");
        assert!(error.to_string().contains("6 f32"), "{error}");
        let error = all_to_all(&comm, &x).expect_err("three rows for two ranks");
        assert!(error.to_string().contains("need 6"), "{error}");
        let scalar = Tensor::new(1_f32, &CPU)?;
        all_gather(&comm, &scalar).expect_err("a scalar has no rows");
        comm.finish()
    });
}

/// In candle's own functions, `?` takes our errors, with their text.
#[test]
fn our_errors_are_candles_too() {
    fn layer(comm: &Communicator<Dev>, x: &Tensor) -> candle_core::Result<Tensor> {
        Ok(all_gather(comm, &all_reduce(comm, x, Sum)?)?)
    }
    on_two(|comm| {
        assert_eq!(layer(&comm, &rows(0)?)?.dims(), [4, 3]);
        let ints = Tensor::zeros(4, Theirs::I16, &CPU)?;
        let theirs = layer(&comm, &ints).expect_err("NCCL has no i16").to_string();
        assert!(theirs.contains("its elements are i16, which NCCL does not have"), "{theirs}");
        comm.finish()
    });
}
