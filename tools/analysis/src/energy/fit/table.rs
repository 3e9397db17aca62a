//! The rows and columns of one least-squares problem, and what is done to all of them: sums of
//! products, smoothing, whitening. Refuses to solve it.
#![forbid(unsafe_code)]

use super::super::design::running_mean;
use super::super::sensor::Rows;
use nalgebra::{DMatrix, DVector};

/// Columns of one solve, scaled, row-major.
pub(super) struct Table {
    pub width: usize,
    pub z: Vec<f64>,
    pub y: Vec<f64>,
}

impl Table {
    pub fn rows(&self) -> impl Iterator<Item = (&[f64], f64)> {
        self.z.chunks_exact(self.width.max(1)).zip(self.y.iter().copied())
    }

    pub fn normal(&self) -> (DMatrix<f64>, DVector<f64>) {
        let n = self.width;
        let mut gram = DMatrix::zeros(n, n);
        let mut moment = DVector::zeros(n);
        for (line, y) in self.rows() {
            for r in 0..n {
                if line[r] != 0.0 {
                    moment[r] += line[r] * y;
                    for c in 0..=r {
                        gram[(r, c)] += line[r] * line[c];
                    }
                }
            }
        }
        gram.fill_upper_triangle_with_lower_triangle();
        (gram, moment)
    }

    pub fn residuals(&self, x: &DVector<f64>) -> Vec<f64> {
        self.rows()
            .map(|(line, y)| y - line.iter().zip(x.iter()).map(|(a, b)| a * b).sum::<f64>())
            .collect()
    }

    /// Running mean over `length` rows on every column.
    pub fn smooth(&mut self, length: usize) {
        running_mean(&mut self.z, self.width, length);
        running_mean(&mut self.y, 1, length);
    }

    /// `e_i = v_i + theta e_(i-1)` on every column, started afresh after a gap.
    pub fn whiten(&mut self, rows: &Rows, theta: f64) {
        for i in 1..self.y.len() {
            if rows.rows[i].joined {
                self.y[i] += theta * self.y[i - 1];
                let (before, now) = self.z.split_at_mut(i * self.width);
                let before = &before[(i - 1) * self.width..];
                for (value, old) in now[..self.width].iter_mut().zip(before) {
                    *value += theta * old;
                }
            }
        }
    }
}

/// Legendre polynomials of degree 1 to `degree` over the run.
pub(super) fn polynomials(rows: &Rows, degree: usize) -> Vec<Vec<f64>> {
    let (Some(first), Some(last)) = (rows.rows.first(), rows.rows.last()) else {
        return Vec::new();
    };
    let (start, length) = (first.to, (last.to - first.to).max(f64::MIN_POSITIVE));
    (1..=degree)
        .map(|d| {
            rows.rows
                .iter()
                .map(|row| {
                    let u = 2.0 * (row.to - start) / length - 1.0;
                    match d {
                        1 => u,
                        2 => 1.5 * u * u - 0.5,
                        3 => (2.5 * u * u - 1.5) * u,
                        _ => ((35.0 * u * u - 30.0) * u * u + 3.0) / 8.0,
                    }
                })
                .collect()
        })
        .collect()
}
