#!/usr/bin/env python3
"""face_loop.py SECONDS PHOTOGRAPH [FRAMES]: finds faces with a Haar cascade in the same photograph again and again, on OpenCL,
for so long or so many times. An
ordinary application: it knows nothing of profilers. Prints the frames that it made; exit code 1 where no face was found."""
import sys
import time

import cv2

seconds, path = float(sys.argv[1]), sys.argv[2]
most = int(sys.argv[3]) if len(sys.argv) > 3 else None
cv2.ocl.setUseOpenCL(True)
if not cv2.ocl.useOpenCL():
    sys.exit("OpenCV finds no OpenCL device: set OPENCV_OPENCL_DEVICE")
cascade = cv2.CascadeClassifier(cv2.data.haarcascades + "haarcascade_frontalface_alt.xml")
image = cv2.imread(path)
grey = cv2.UMat(cv2.equalizeHist(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)))
frames, missed, from_ = 0, 0, time.monotonic()
while frames < most if most else time.monotonic() - from_ < seconds:
    missed += len(cascade.detectMultiScale(grey, 1.1, 4, minSize=(48, 48))) == 0
    frames += 1
print(f"{frames} frames, {missed} without a face, on {cv2.ocl.Device_getDefault().name()}")
sys.exit(1 if missed else 0)
