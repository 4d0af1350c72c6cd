// Package preprocess turns one example, an image of any size or a ready array, into a model's input tensor.
//
//  1. A [Spec] describes the preprocessing. It is written by hand as YAML ([Load]), named ([Preset]), or
//     derived from the model's input ([For]). Bundles record it.
//  2. [New] fits it to a model's input and returns a [Pipeline].
//  3. [Pipeline.Apply] runs it, from any number of goroutines.
//
// Arrays of uint8 are images, or at least pixels, and go through all steps: colour, resize, crop, scale, mean
// and std, layout. Arrays of other types are ready tensors: they must have the model's shape, and only their
// number type is converted. Nothing is resized or cropped unless the Spec says so.
//
// # The schema
//
// Every field is optional; its default is in brackets.
//
//	resize:                # [none]
//	  size: 256            #   the shorter side, keeping the aspect ratio; or
//	  width: 224           #   both sides, also as size: {width: 224, height: 224}
//	  height: 224
//	  mode: shortest       #   shortest; exact, whatever the aspect ratio; or, keeping
//	                       #   it, fit, cover or height [shortest or exact, as fields are given]
//	  filter: bilinear     #   nearest, bilinear, bicubic, lanczos, box or hamming [bilinear]
//	  arithmetic: pillow   #   whose rounding: pillow, or torch, of tensors [pillow]
//	pad:                   # fill up what fit or height left, or what is smaller than crop [none]
//	  value: 114           #   the pixels that are put in, before scale, mean and std [0]
//	  values: [124,116,104] #  instead, one for each channel in the order of color
//	  position: centre     #   of the image: centre or corner, the top left [centre]
//	crop:                  # cut out of the centre [none]
//	  round: even          #   where half a pixel goes: even or down [even]
//	  size: 224            #   a square; or
//	  width: 224
//	  height: 224
//	color: RGB             # RGB, BGR or grey [RGB or grey, as the model takes]
//	scale: 0.00392156862745098  # x·scale, x in 0…255 [1]
//	mean: [.485,.456,.406] # (x·scale − mean) / std, one number for each channel
//	std: [.229,.224,.225]  #   in the order of color, or one for all [0 and 1]
//	layout: NCHW           # NCHW or NHWC [as the model's input shows]
//	flatten: false         # one row of numbers for each image [where the model's
//	                       #   input has rank 2]
//	exif: true             # turn and mirror an image file first, as its EXIF orientation
//	                       #   asks for; false takes it as it is stored [true]
//
// Phones store most pictures rotated, and record that in the file's EXIF data, which PNG and JPEG files have.
// Arrays and decoded images are used as they are. In a bundle without exif it is false, because the first
// bundles were calibrated so.
//
// Package published reads what other libraries wrote beside a model.
//
// # Letterboxes
//
// Detectors and their classifiers often resize an image to fit, and pad it with grey bars:
//
//	resize: {size: {width: 640, height: 640}, mode: fit}
//	pad: {value: 114}
//
// Text recognisers resize a line to a fixed height. Longer lines are squeezed to the width, and shorter ones
// padded after the text, here with a value that mean and std map to 0:
//
//	resize: {size: {width: 192, height: 48}, mode: height}
//	pad: {value: 127.5, position: corner}
//	scale: 0.00392156862745098
//	mean: [0.5]
//	std: [0.5]
//
// # What it equals
//
// Results equal those of the libraries that models are trained with: resizing is Pillow's, with its
// antialiasing and its 8-bit rounding after either pass, to the last bit; the rounding of the shorter side
// and of the centre crop is torchvision's; fit and pad are Pillow's ImageOps.contain and ImageOps.pad, and
// exif is its ImageOps.exif_transpose, except for orientations outside EXIF; cover, and fit with crop, are
// timm's ResizeKeepRatio; grey is Pillow's,
// (19595 R + 38470 G + 7471 B + 32768) >> 16.
package preprocess
