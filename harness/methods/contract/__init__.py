r"""The contract that every method passes, built in or not, on a tiny real model.

For a method of your own, by its name or ``package.module:Class``::

    python -m harness.methods.contract my_package.my_module:MyMethod

or, as a part of your own tests, with pytest's options::

    pytest -p harness.methods.contract.plugin --pyargs harness.methods.contract \
        --method my_package.my_module:MyMethod

It needs pytest, which the harness itself does not. The checks are in :mod:`.test_method`.
"""
