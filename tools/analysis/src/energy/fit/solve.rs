//! Owns the small dense algebra of the fit: least squares with some coefficients kept from going
//! negative, and a guarded inverse. Refuses to know what a column
//! means.

use nalgebra::{DMatrix, DVector, SymmetricEigen};

/// Eigenvalues of the correlation-scaled normal matrix below this count as directions without
/// information. What is left of their variance is so large that every verdict rests on it.
const NULL_EIGENVALUE: f64 = 1e-10;

/// `min |Z x - y|` given `gram = Z'Z` and `moment = Z'y`, with `x[j] >= 0` wherever `bounded[j]`.
/// Active set of Lawson and Hanson (Solving Least Squares Problems, ch. 23) on the normal
/// equations, started with every column in. Columns without any signal stay at zero.
pub fn nonnegative(gram: &DMatrix<f64>, moment: &DVector<f64>, bounded: &[bool]) -> DVector<f64> {
    let n = moment.len();
    let usable: Vec<bool> = (0..n).map(|j| gram[(j, j)] > 0.0).collect();
    let mut passive = usable.clone();
    let mut x = DVector::zeros(n);
    let tolerance = 1e-9;
    for _ in 0..4 * n + 8 {
        // Inner loop: solve on the passive set; step back to the bound as long as something went
        // negative.
        for _ in 0..n + 1 {
            let trial = solve_on(gram, moment, &passive);
            let blocking = (0..n).filter(|&j| bounded[j] && passive[j] && trial[j] <= 0.0);
            let mut step = 1.0_f64;
            let mut any = false;
            for j in blocking {
                any = true;
                let room = x[j] - trial[j];
                step = step.min(if room > 0.0 { x[j] / room } else { 0.0 });
            }
            if !any {
                x = trial;
                break;
            }
            x += (&trial - &x) * step;
            for j in 0..n {
                if bounded[j] && passive[j] && x[j] <= 0.0 && trial[j] <= 0.0 {
                    passive[j] = false;
                    x[j] = 0.0;
                }
            }
        }
        // Let in the column whose growth would help most.
        let gradient = moment - gram * &x;
        let best = (0..n)
            .filter(|&j| usable[j] && !passive[j])
            .map(|j| (j, gradient[j] / gram[(j, j)].sqrt()))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let scale = moment
            .iter()
            .zip(gram.diagonal().iter())
            .fold(0.0_f64, |m, (b, d)| if *d > 0.0 { m.max(b.abs() / d.sqrt()) } else { m });
        match best {
            Some((j, gain)) if gain > tolerance * scale => passive[j] = true,
            _ => break,
        }
    }
    x
}

/// Solution on a subset of columns, zero elsewhere.
fn solve_on(gram: &DMatrix<f64>, moment: &DVector<f64>, passive: &[bool]) -> DVector<f64> {
    let chosen: Vec<usize> = (0..passive.len()).filter(|&j| passive[j]).collect();
    let mut x = DVector::zeros(passive.len());
    if chosen.is_empty() {
        return x;
    }
    let scale: Vec<f64> = chosen.iter().map(|&j| gram[(j, j)].sqrt().recip()).collect();
    let m = chosen.len();
    // A ridge far below rounding of the data keeps exactly repeated columns solvable; they share
    // the sum, and the verdict on them is made from the variance, not from here.
    let a = DMatrix::from_fn(m, m, |r, c| {
        gram[(chosen[r], chosen[c])] * scale[r] * scale[c] + if r == c { 1e-12 } else { 0.0 }
    });
    let b = DVector::from_fn(m, |r, _| moment[chosen[r]] * scale[r]);
    let solution = match a.clone().cholesky() {
        Some(factor) => factor.solve(&b),
        // Errors in the columns were subtracted beyond what they hold: fall back to the eigenvalues
        // that are left.
        None => spectral_inverse(&a) * b,
    };
    for (r, &j) in chosen.iter().enumerate() {
        x[j] = solution[r] * scale[r];
    }
    x
}

/// Inverse of a symmetric matrix of unit diagonal, its eigenvalues kept above [`NULL_EIGENVALUE`].
fn spectral_inverse(a: &DMatrix<f64>) -> DMatrix<f64> {
    let eigen = SymmetricEigen::new(a.clone());
    let inverted = eigen.eigenvalues.map(|value| value.max(NULL_EIGENVALUE).recip());
    &eigen.eigenvectors * DMatrix::from_diagonal(&inverted) * eigen.eigenvectors.transpose()
}

/// Inverse of a normal matrix. Directions without information get an enormous variance instead of a
/// failure; columns without signal get zero rows.
pub fn guarded_inverse(gram: &DMatrix<f64>) -> DMatrix<f64> {
    let n = gram.nrows();
    let scale: Vec<f64> = (0..n)
        .map(|j| if gram[(j, j)] > 0.0 { gram[(j, j)].sqrt().recip() } else { 0.0 })
        .collect();
    let scaled = DMatrix::from_fn(n, n, |r, c| match (r == c, scale[r] > 0.0) {
        (true, false) => 1.0,
        _ => gram[(r, c)] * scale[r] * scale[c],
    });
    let inverse = spectral_inverse(&scaled);
    DMatrix::from_fn(n, n, |r, c| inverse[(r, c)] * scale[r] * scale[c])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_singular_system_still_gives_its_sum() {
        let gram = DMatrix::from_row_slice(2, 2, &[1.0, 1.0, 1.0, 1.0]);
        let x = nonnegative(&gram, &DVector::from_vec(vec![3.0, 3.0]), &[true, true]);
        assert!((x.sum() - 3.0).abs() < 1e-6);
        let inverse = guarded_inverse(&gram);
        assert!(inverse[(0, 0)] > 1e8, "no information must not look like certainty");
    }

    proptest! {
        /// The conditions of Karush, Kuhn and Tucker hold at the solution, whatever the system.
        #[test]
        fn solution_is_optimal(
            n in 1usize..7,
            numbers in prop::collection::vec(-3.0f64..3.0, 7 * 12),
            target in prop::collection::vec(-5.0f64..5.0, 12),
            free in prop::collection::vec(any::<bool>(), 7),
        ) {
            let z = DMatrix::from_fn(12, n, |r, c| numbers[r * 7 + c]);
            let y = DVector::from_vec(target);
            let gram = z.transpose() * &z;
            let moment = z.transpose() * &y;
            let bounded: Vec<bool> = free[..n].iter().map(|f| !f).collect();
            let x = nonnegative(&gram, &moment, &bounded);
            let gradient = &moment - &gram * &x;
            let scale = gram.diagonal().max().max(1.0) * 10.0;
            for j in 0..n {
                if bounded[j] {
                    prop_assert!(x[j] >= 0.0);
                    prop_assert!(gradient[j] <= 1e-6 * scale);
                }
                if x[j] != 0.0 {
                    prop_assert!(gradient[j].abs() <= 1e-6 * scale);
                }
            }
        }
    }
}
