//! Plans that are wrong at sizes that the first ones do not show: none of them is accepted.

mod arrays;
mod claimed;
mod computed;
mod divisions;
mod guarded;
mod in_flight;
mod lengths;
mod orders;
mod quantities;
mod words;
mod written;
mod wrong;
