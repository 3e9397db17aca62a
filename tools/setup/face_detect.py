#!/usr/bin/python3
"""face_detect.py [--no-opencl] [--haar] PHOTOGRAPH...: finds faces with an LBP (or Haar) cascade in five frames of each photograph, each a
little smaller than the one before, as a camera that draws back sees them. Works on cv2.UMat, so that OpenCV takes its OpenCL path
where a device is chosen (OPENCV_OPENCL_DEVICE). An ordinary application: it knows nothing of profilers.
OpenCV takes its OpenCL path for Haar cascades only on devices of some vendors, for LBP on all.
Exit code 1 where OpenCL was not used although asked for, or a frame shows no face."""

import sys

import cv2

LBP = "/usr/share/opencv4/lbpcascades/lbpcascade_frontalface.xml"
HAAR = "/usr/share/opencv4/haarcascades/haarcascade_frontalface_alt.xml"
FRAMES = 5


def main():
    paths = [a for a in sys.argv[1:] if not a.startswith("--")]
    wanted = "--no-opencl" not in sys.argv
    if not paths:
        sys.exit(__doc__)
    cv2.ocl.setUseOpenCL(wanted)
    if wanted and not cv2.ocl.useOpenCL():
        sys.exit("OpenCV finds no OpenCL device: set OPENCV_OPENCL_DEVICE, for example :CPU: for PoCL")
    file = HAAR if "--haar" in sys.argv else LBP
    cascade = cv2.CascadeClassifier(file)
    if cascade.empty():
        sys.exit(f"cannot read {file}: it is in Debian's package opencv-data")
    missed = 0
    for path in paths:
        image = cv2.imread(path)
        if image is None:
            sys.exit(f"cannot read {path}")
        for frame in range(FRAMES):
            scale = 1.1 - 0.1 * frame
            small = cv2.resize(cv2.UMat(image), None, fx=scale, fy=scale, interpolation=cv2.INTER_LINEAR)
            grey = cv2.equalizeHist(cv2.cvtColor(small, cv2.COLOR_BGR2GRAY))
            faces = sorted(tuple(int(v) for v in face) for face in cascade.detectMultiScale(grey, 1.1, 4, minSize=(48, 48)))
            missed += not faces
            print(f"{path.rsplit('/', 1)[-1]}, frame {frame}: {len(faces)} face{'s' * (len(faces) != 1)} {faces}")
    if wanted:
        device = cv2.ocl.Device_getDefault()
        print(f"on {device.name().strip()} ({device.vendorName().strip()})", file=sys.stderr)
    sys.exit(1 if missed else 0)


main()
