//! Stands where this build cannot draw pixels. Refuses every plot, with the way to a build that
//! can.

use std::convert::Infallible;

/// This build draws no pixels.
#[derive(Debug, thiserror::Error)]
#[error(
    "--png: this clscope was built without the drawing of pixels; build it with `cargo build --release -p clscope-cli --features png`, or use the SVG files"
)]
pub struct PngError;

/// Cannot be made.
pub struct Renderer(Infallible);

impl Renderer {
    /// Never succeeds.
    ///
    /// # Errors
    /// Always: with the command that builds the feature.
    pub fn new() -> Result<Renderer, PngError> {
        Err(PngError)
    }

    /// Is never called: there is no renderer.
    ///
    /// # Errors
    /// None.
    pub fn png(&self, _: &str) -> Result<Vec<u8>, PngError> {
        match self.0 {}
    }
}
