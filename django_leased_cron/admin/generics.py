"""Django's classes that take type parameters in their stubs only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models.query import ModelIterable

if TYPE_CHECKING:
    AnyModelAdmin = admin.ModelAdmin[Any]
    AnyStackedInline = admin.StackedInline[Any, Any]
    AnyModelForm = forms.ModelForm[Any]
    AnyPaginator = Paginator[Any]
    AnyModelIterable = ModelIterable[Any]
else:
    AnyModelAdmin = admin.ModelAdmin
    AnyStackedInline = admin.StackedInline
    AnyModelForm = forms.ModelForm
    AnyPaginator = Paginator
    AnyModelIterable = ModelIterable
