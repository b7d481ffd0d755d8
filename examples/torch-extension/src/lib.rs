//! Averages torch's gradients over ranks, in the gradients' own memory.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use typed_nccl::interop::{Tensor, torch};
use typed_nccl::{Avg, Cuda, Device, Host, Result, Seat};

#[pymodule]
mod averager {
    #[pymodule_export]
    use super::Averager;
}

type Average = Box<dyn Fn(&mut Tensor<Py<PyAny>>) -> Result<()> + Send>;

/// One rank.
#[pyclass(frozen)]
struct Averager(Mutex<Option<Seat>>, Mutex<Option<Average>>);

fn connect<D: Device + 'static>(seat: Seat, device: D) -> Result<Average> {
    let comm = seat.init(device)?;
    Ok(Box::new(move |x| comm.device().clone().lend(x, |x| comm.all_reduce_in_place(x, Avg))))
}

#[pymethods]
impl Averager {
    /// The rank that a launcher such as torchrun gives this process, on its GPU.
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let average = py.detach(|| connect(Seat::from_env()?, Cuda::local()?))?;
        Ok(Self(Mutex::default(), Mutex::new(Some(average))))
    }

    /// Ranks that are threads, one each.
    #[staticmethod]
    fn threads(n: usize) -> Vec<Self> {
        Seat::local(n)
            .into_iter()
            .map(|seat| Self(Mutex::new(Some(seat)), Mutex::default()))
            .collect()
    }

    /// Averages a tensor over the ranks. Other threads run meanwhile, including ranks in this
    /// interpreter.
    fn average_(&self, x: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut tensor = torch::resolve(x)?;
        Ok(x.py().detach(|| {
            let mut average = self.1.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(seat) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let rank = u32::try_from(seat.rank().index()).unwrap_or(u32::MAX);
                *average = Some(connect(seat, Host::any(rank)?)?);
            }
            average.as_ref().map_or(Ok(()), |average| average(&mut tensor))
        })?)
    }
}
