# For Spack: copy it into the folder packages/maxlogit of a repository of your own, beside maxlogit-0.1.0.tar.gz (make dist), and
# run `spack install --no-checksum maxlogit`.
import os

from spack.package import *


class Maxlogit(AutotoolsPackage, CudaPackage):
    """Simulator of growing attention logits in transformer training."""

    url = "file://" + os.path.join(os.path.dirname(__file__), "maxlogit-0.1.0.tar.gz")

    license("MIT")

    version("0.1.0")

    variant("mpi", default=True, description="Train on several ranks")

    depends_on("c", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("openblas threads=pthreads ~ilp64")  # with LAPACKE
    depends_on("hdf5 ~mpi")
    depends_on("gsl")
    depends_on("jansson")
    depends_on("libmicrohttpd")
    depends_on("xxhash")
    depends_on("mpi", when="+mpi")
    depends_on("gnuplot", type="run")

    def configure_args(self):
        return self.with_or_without("mpi") + self.with_or_without("cuda", activation_value="prefix")
