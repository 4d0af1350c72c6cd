// Package preprocess turns one example, an image of any size or a ready array,
// into the tensor that a model takes.
//
//  1. A [Spec] says what is to be done. It is written by hand as YAML ([Load]),
//     named ([Preset]), or derived from the model's input ([For]), and it is
//     what a bundle records.
//  2. [New] fits it to a model's input and yields a [Pipeline].
//  3. [Pipeline.Apply] runs it, from any number of goroutines.
//
// Arrays of uint8 are images, or pixels at least, and go through all steps:
// colour, resize, crop, scale, mean and std, layout. Every other type is taken
// for a ready tensor: it must have the model's shape, and only its number type
// is adapted. Nothing is ever resized or cropped unless the Spec says so.
//
// # The schema
//
// Every field may be left out, and means then what stands in brackets.
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
// Telephones store most pictures turned, and say so in the file's EXIF data. PNG and JPEG files have
// it; arrays, and images that are decoded already, come as they are to be taken. In a bundle that does
// not say exif it is false: the first ones were calibrated so.
//
// Package published reads what other libraries wrote beside a model.
//
// # Letterboxes
//
// Detectors and their classifiers often take an image as large as it fits, with bars of grey:
//
//	resize: {size: {width: 640, height: 640}, mode: fit}
//	pad: {value: 114}
//
// Readers of text take a line at one height, as wide as it then is. What is beyond the width is
// squeezed, and what lacks is filled behind the text, here with a value that mean and std make 0:
//
//	resize: {size: {width: 192, height: 48}, mode: height}
//	pad: {value: 127.5, position: corner}
//	scale: 0.00392156862745098
//	mean: [0.5]
//	std: [0.5]
//
// # What it equals
//
// Results equal what a model's training most likely used: resizing is Pillow's, with its
// antialiasing and its 8-bit rounding after either pass, to the last bit; the rounding of the
// shorter-side rule and of the centre crop is torchvision's; fit and pad are Pillow's
// ImageOps.contain and ImageOps.pad, and exif is its ImageOps.exif_transpose, but for orientations
// outside EXIF; cover, and fit with crop, are timm's ResizeKeepRatio; grey is Pillow's,
// (19595 R + 38470 G + 7471 B + 32768) >> 16.
package preprocess
