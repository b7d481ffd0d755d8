//! Other libraries' memory and streams.

mod cudarc;
